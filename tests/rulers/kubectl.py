"""Runs Kubernetes' own scripts of kubectl (test/cmd) against a practice cluster, each assertion counted.

They come from the module that the lab builds kubectl from, at run time, with kubectl itself.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from tests.contract.cluster import practice_cluster
from tests.lab.build import KUBERNETES, build
from tests.rulers.go_cases import Module, folder_of

MODULE = Module("k8s.io/kubernetes", KUBERNETES, (), "")
SCRIPTS = (
    "apply", "auth_whoami", "authorization", "batch", "core", "create", "delete", "diff", "discovery", "events", "exec",
    "generic-resources", "get", "kubeconfig", "request-timeout", "results", "run", "save-config", "scale",
    "template-output", "version", "wait",
)  # fmt: skip
LIMIT = 150.0  # seconds for one function
_UNSERVED = re.compile(r'no matches for kind "(\w+)"|have a resource type "([\w.-]+)"|(MethodNotAllowed)')
WHY = (
    (r"terminationMessagePolicy", "fewer defaults of a pod are filled in there"),
    (r"test-pod-applied|ssaKey", "an apply on the server does not bring kubectl's last-applied annotation up to date"),
    (r"\b(crds?|[a-z]+\.example\.com|test-crd-\w+)\b", "a practice cluster takes no CustomResourceDefinitions"),
    (r'url="\.\*/apis?/', "of what `kubectl get all` asks for, pods and services are named so there"),
    (r"deployments/|no matching resources found", "Deployments are only kept there: nothing runs them"),
    (r"cassandra", "replication controllers are not served"),
    (r"clusterroles", "there are no cluster roles, so that they have no second page"),
    (r"Accept-Encoding", "answers are not compressed there"),
    (r"has not:\d+ ", "a pod lives there: its state is written between two looks at its version"),
    (r"Get pods? .* Got: \S", "a pod lives there: it takes its time to start and to go"),
    (r"nodes/127\.0\.0\.1|gke-practice", "the machines are those of a practice cluster"),
    (r"not reached|did not end", "not reached: what stands before it did not end in time"),
)
"""By words of what an assertion said, why it fails there."""
_ASSERTION = re.compile(r"kube::test::(?!if_supports|version::\w*to_file|clear_all)[\w:]+ ")


def cases() -> list[dict[str, Any]]:
    """Every line of the scripts that asserts something; Unavailable if they cannot be had."""
    source = folder_of(MODULE)
    kubectl = build().program("kubectl")
    found: dict[str, str] = {}
    reasons: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="a4-kubectl-") as place:
        root = Path(place) / "kubernetes"
        for part in ("test/cmd", "test/fixtures", "test/e2e/testing-manifests", "hack/lib", "hack/testdata"):
            shutil.copytree(source / part, root / part, copy_function=shutil.copyfile)
        for name in SCRIPTS:
            for function in re.findall(r"^(run_\w+)\(\)", (root / f"test/cmd/{name}.sh").read_text(), re.MULTILINE):
                sys.stderr.write(f"rulers: kubectl {name}, {function}\n")
                with tempfile.TemporaryDirectory(dir=place) as own, practice_cluster(Path(own)) as cluster:
                    played = dict(_play(root, kubectl, Path(own), cluster.kubeconfig, function))
                    log = (Path(own) / "log").read_text(errors="replace")
                kinds = sorted({"".join(each) for each in _UNSERVED.findall(log + str(played))})
                for at, fault in played.items():
                    if fault or at not in found:
                        found[at], reasons[at] = fault, fault and _reason(fault, kinds)
        missed = "not reached: a function ended before"
        return [
            {"suite": f"{name}.sh", "name": at, "case": {}, "fault": found.get(at, missed),
             "why": reasons.get(at, _reason(missed, []))}
            for name in SCRIPTS
            for at in _assertions(root / f"test/cmd/{name}.sh")
        ]  # fmt: skip


def _reason(fault: str, kinds: list[str]) -> str:
    """Why an assertion of a function fails that asked for these kinds, which are not served; empty: nobody knows."""
    unserved = f"its function needs what a practice cluster does not serve: {', '.join(kinds)[:150]}"
    return next((why for words, why in WHY if re.search(words, fault)), unserved if kinds else "")


def _assertions(script: Path) -> Iterator[str]:
    for number, line in enumerate(script.read_text().splitlines(), 1):
        if _ASSERTION.search(line) and not line.lstrip().startswith("#"):
            yield f"{script.name}:{number}"


def _play(root: Path, kubectl: Path, own: Path, kubeconfig: Path, function: str) -> Iterator[tuple[str, str]]:
    """Where each assertion of a function stands, and how it failed; empty where it did not."""
    config = own / "config"
    shutil.copy(kubeconfig, config)
    server = yaml.safe_load(config.read_text())["clusters"][0]["cluster"]["server"]
    lines = own / "found"
    lines.touch()
    settings = {
        "KUBE_ROOT": str(root), "KUBE_TEMP": str(own), "HOME": str(own), "KUBECONFIG": str(config),
        "THIS_PLATFORM_BIN": str(kubectl.parent), "SECURE_API_PORT": str(urlsplit(server).port),
        "RULER_FOUND": str(lines), "RULER_FUNCTION": function,
    }  # fmt: skip
    script = Path(__file__).with_name("kubectl.sh.txt")
    _run_whole(["bash", str(script)], os.environ | settings, own / "log")
    for line in lines.read_text(errors="replace").splitlines():
        at, code, text = line.split("\t", 2)
        yield at, "" if code == "0" else " ".join(text.split()) or f"exit code {code}"


def _run_whole(command: list[str], settings: Mapping[str, str], log: Path) -> None:
    """Run it with what it starts, which ends with it."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, env=settings, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        try:
            process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            pass
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.wait()
