"""Objects of Kueue, kubeconfigs and ssh configs: what commands say of them, beside a small API server or ssh itself."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from console.attach.ssh import config_and_known_hosts
from console.attach.ssh.config_and_known_hosts import SshHostEntry
from console.attach.ssh.ssh_folder import SshPaths
from tests.apiserver import ApiServer
from tests.corpus.verdict import Case, Verdict
from tests.kubeconfigs import write_kubeconfig

KUEUE = "/apis/kueue.x-k8s.io/v1beta2/"
PATHS = {"Workload": f"{KUEUE}workloads", "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/jobsets"}
BLOCK = "cloud.google.com/gce-topology-block"
# beginning of the file's name: words that the answer has to have, and some that it must not have
ANSWERS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "k01": (("cpu", "team=b:NoSchedule", "10", "3", "kueue_says"), ("could start now", "has not assigned them")),
    "k03": (("dws-prov", "Max nodepool size reached", "attempt 4"), ("QuotaReserved;",)),
    "k05": (("32 GPUs", "no pods"), ("are being deleted",)),
    "k06": (("networking.gke.io.networks/gpu0", "does not cover"), ("no node of its queue fits", "could start now")),
    "c01": (("gcp", "gke-gcloud-auth-plugin", "get-credentials"), ("Expecting value", "Errno")),
    "c02": (("certificate authority", "no certificate"), ("blob", "Try again in a moment")),
    "c04": (("hang.sh", "has not answered for"), ("listed nothing", "VPN")),
    "s01": (("remotecommand none", "requesttty auto"), ("tmux",)),
}


def kueue(folder: Path) -> list[Case]:
    return asyncio.run(_compare_each(folder, "k*.yaml", _ask_why))


def kubeconfigs(folder: Path) -> list[Case]:
    return asyncio.run(_compare_each(folder, "c*.yaml", _list_jobs))


async def _compare_each(folder: Path, pattern: str, ask: Callable[..., Any]) -> list[Case]:
    made = []
    for path in sorted(folder.glob(pattern)):  # noqa: ASYNC240 - nothing waits
        with tempfile.TemporaryDirectory() as scratch:
            made.append(_judge(path, await ask(path.read_text(), Path(scratch))))
    return made


def _judge(path: Path, answer: str) -> Case:
    needed, foreign = ANSWERS.get(path.name[:3], (("in the table of this module",), ()))
    if wrong := [word for word in foreign if word in answer]:
        return Case(path.name, Verdict.WRONG, f"{wrong} in: {answer[:600]}")
    if missing := [word for word in needed if word not in answer]:
        return Case(path.name, Verdict.PARTLY, f"without {missing}: {answer[:600]}")
    return Case(path.name, Verdict.RIGHT)


async def _ask_why(text: str, scratch: Path) -> str:
    things = [*yaml.safe_load_all(text)]
    async with ApiServer(secure=True) as server:
        for each in [*_cluster(), *things]:
            place = PATHS.get(each["kind"]) or each.pop("place")
            server.put(place, each)
        name = next(each["metadata"]["name"] for each in things if each["kind"] == "JobSet")
        authority = server.target().cluster.certificate_authority_data
        cluster = {"server": server.url, "certificate-authority-data": authority}
        kubeconfig = write_kubeconfig(scratch / "kubeconfig", cluster, {"token": "t0"})
        outputs = [await _a4(kubeconfig, scratch, "-n", "case", "why", name, *more) for more in ((), ("--json",))]
        return "\n".join(outputs)


def _cluster() -> list[dict[str, Any]]:
    """A ClusterQueue of 112 GPUs, all free, over 16 nodes of 8."""
    size = {"nvidia.com/gpu": "8", "cpu": "200", "memory": "3000Gi", "pods": "110"}
    nodes = [
        {
            "kind": "Node", "place": "/api/v1/nodes",
            "metadata": {
                "name": f"node-{at}",
                "labels": {"pool": "a4", BLOCK: f"blk-{at // 8}", "kubernetes.io/hostname": f"node-{at}"},
            },
            "spec": {}, "status": {"allocatable": size, "capacity": size,
                                   "conditions": [{"type": "Ready", "status": "True"}]},
        }
        for at in range(16)
    ]  # fmt: skip
    flavor = {"nodeLabels": {"pool": "a4"}, "topologyName": "gke-default"}
    levels = [{"nodeLabel": BLOCK}, {"nodeLabel": "kubernetes.io/hostname"}]
    quota = {"name": "a4", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "112"}]}
    queue = {
        "namespaceSelector": {}, "resourceGroups": [{"coveredResources": ["nvidia.com/gpu"], "flavors": [quota]}]
    }  # fmt: skip
    active = {"conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": ""}]}
    return [
        *nodes,
        {"kind": "ResourceFlavor", "place": f"{KUEUE}resourceflavors", "metadata": {"name": "a4"}, "spec": flavor},
        {"kind": "Topology", "place": f"{KUEUE}topologies", "metadata": {"name": "gke-default"},
         "spec": {"levels": levels}},
        {"kind": "ClusterQueue", "place": f"{KUEUE}clusterqueues", "metadata": {"name": "a4"}, "spec": queue,
         "status": active},
        {"kind": "LocalQueue", "place": f"{KUEUE}localqueues", "metadata": {"name": "a4", "namespace": "case"},
         "spec": {"clusterQueue": "a4"}, "status": active},
    ]  # fmt: skip


async def _list_jobs(text: str, scratch: Path) -> str:
    """What a command says with that kubeconfig, whose server is a real one and whose programs are where it says."""
    hanging = scratch / "hang.sh"
    hanging.write_text("#!/bin/sh\nexec sleep 300\n")
    hanging.chmod(0o755)
    gcloud = scratch / "gcloud"
    gcloud.write_text("#!/bin/sh\necho not logged in >&2\n")
    gcloud.chmod(0o755)
    async with ApiServer(secure=True) as server:
        authority = server.target().cluster.certificate_authority_data
        text = text.replace("https://SERVER", server.url)
        text = text.replace("certificate-authority-data: CA\n", f"certificate-authority-data: {authority}\n")
        text = text.replace("/usr/local/bin/hang.sh", str(hanging))
        text = text.replace("/usr/lib/google-cloud-sdk/bin/gcloud", str(gcloud))
        kubeconfig = scratch / "kubeconfig"
        kubeconfig.write_text(text)
        return await _a4(kubeconfig, scratch, "jobs")


async def _a4(kubeconfig: Path, home: Path, *arguments: str) -> str:
    """Both outputs of a command."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "screens", "--kubeconfig", str(kubeconfig), *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, stdin=asyncio.subprocess.DEVNULL,
        env=os.environ | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "XDG_STATE_HOME": str(home)},
    )  # fmt: skip
    out, _ = await process.communicate()
    return " ".join(out.decode().split())


def ssh(folder: Path) -> list[Case]:
    made = []
    for path in sorted(folder.glob("s*.config")):
        with tempfile.TemporaryDirectory() as scratch:
            made.append(_judge(path, _options_of_host(path, Path(scratch))))
    return made


def _options_of_host(path: Path, scratch: Path) -> str:
    """The options of a4's host as ssh itself reads the person's config with a4's line in it."""
    os.environ["A4_SSH_FOLDER"] = str(scratch / "ssh")
    places = SshPaths.locate()
    places.user.mkdir(mode=0o700)
    places.user_config.write_bytes(path.read_bytes())
    entry = SshHostEntry(
        name="a4-train", context="x", namespace="case", job="train", ranks=1, kubeconfig="", program=("a4",),
        identity=str(scratch / "key"), pods={},
    )  # fmt: skip
    with places.lock():
        config_and_known_hosts.save_entry(places, entry)
        config_and_known_hosts.add_include(places)
    argv = ["ssh", "-G", "-F", str(places.user_config), entry.host(0)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    none = "" if "remotecommand" in done.stdout else "remotecommand none "  # as ssh leaves it out
    return none + done.stdout + done.stderr
