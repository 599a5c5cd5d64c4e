"""A real Kubernetes control plane for A4 machines that are not there, started in seconds and gone without a trace.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler, JobSet and Kueue with their webhooks, and KWOK as the
kubelet of every node. What a program in a pod would do, a test does: it appends to the pod's log, ends the pod by an
annotation (`a4-lab/outcome`, see pod-end.yaml), and runs commands of this host by exec.
"""

import datetime
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

import yaml
from cryptography import x509

from tests.lab.api import Api
from tests.lab.build import SOURCE, LabError, Tools, build
from tests.lab.flags import Ports, api_server, controller_manager, etcd, kwok, scheduler
from tests.lab.machines import POOLS, Object, Pool
from tests.lab.objects import FIRST, controller_objects, dump, jobset_configuration, kueue_configuration, queues, reader
from tests.lab.pki import create_certificates, write_client_kubeconfig
from tests.lab.podlogs import PodLogs
from tests.lab.processes import Processes, children, free_ports
from tests.lab.sshd import SshServer
from tests.programs import find, missing

ATTEMPTS, PORT_TAKEN = 3, "address already in use"
FIXED = (Path("/etc/kueue/metrics/certs"), Path("/visibility"))
"""Compiled into Kueue: it reads its certificates here when it does not manage them itself."""


class Lab:
    """One running control plane; a context manager. `kubeconfig` is the administrator's."""

    def __init__(
        self,
        pools: Sequence[Pool] = POOLS,
        say: Callable[[str], None] = lambda line: None,
        kwok_user: int | None = None,
    ) -> None:
        """`kwok_user`: the user id as which kwok counts. It takes an inotify instance for each log that is followed, of
        which a user has so many.
        """
        self.pools = pools
        self._kwok_user = kwok_user
        self.say = say
        self.tools: Tools | None = None
        self._logs: PodLogs | None = None
        self.ssh: SshServer | None = None
        self._choose_place()

    def _choose_place(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="a4-lab-"))
        self.pki = self.folder / "pki"
        self.kubeconfig = self.folder / "kubeconfig"
        self.reader_kubeconfig = self.folder / "reader.kubeconfig"
        """Somebody who may look at pods, nodes and jobs, and do nothing."""
        self.pod_root = self.folder / "pod"
        """Working directory of every exec."""
        self.ports = Ports(*free_ports(Ports.COUNT))
        self.processes = Processes(self.folder / "logs")

    def __enter__(self) -> Self:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self.start()
                break
            except BaseException as error:
                self.stop()
                if attempt == ATTEMPTS or not isinstance(error, LabError) or PORT_TAKEN not in str(error):
                    raise
                self.say(f"a port was taken meanwhile; attempt {attempt + 1} of {ATTEMPTS}")
                self._choose_place()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def api(self) -> Api:
        return Api.administrator(self.ports.api, self.pki)

    @property
    def logs(self) -> PodLogs:
        assert self._logs is not None, "the lab has not been started"
        return self._logs

    def start(self) -> None:
        """Build if needed, start everything, and return when a JobSet can be queued."""
        began = monotonic()
        self.tools = build()
        sshd = find("sshd")
        if sshd is None:
            raise LabError(missing(("sshd",)))
        for folder in (self.processes.logs, self.pod_root, self.folder / "etcd"):
            folder.mkdir(mode=0o700)
        create_certificates(self.pki)
        self._place_certificates()
        for path, user in ((self.kubeconfig, "admin"), (self.reader_kubeconfig, "reader")):
            write_client_kubeconfig(path, self.pki, f"https://127.0.0.1:{self.ports.api}", user)
        self._start_kubernetes(self.tools)
        self.say(f"API server ready after {monotonic() - began:.1f} s")
        self._start_controllers(self.tools)
        self.ssh = SshServer(self.folder / "sshd", self.ports.ssh, sshd, self.pod_root)
        self.processes.start("sshd", *self.ssh.command())
        self._logs = PodLogs(self.folder / "podlogs", self.api)
        self._logs.start()
        self._wait_for_kueue()
        self.say(f"lab ready after {monotonic() - began:.1f} s")

    def stop(self) -> None:
        """End every process and remove the folder."""
        self.processes.stop()
        if self._logs is not None:
            self._logs.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def configure_kueue(self, fair_sharing: Object | None) -> None:
        """Start Kueue anew, with that for fair sharing in its configuration."""
        assert self.tools is not None, "the lab has not been started"
        path = self.folder / "kueue.yaml"
        configuration = yaml.safe_load(path.read_text())
        configuration.pop("fairSharing", None)
        path.write_text(yaml.safe_dump(configuration | ({} if fair_sharing is None else {"fairSharing": fair_sharing})))
        self.processes.kill("kueue")
        self._start_controller(self.tools, "kueue")
        self._wait_for_controller("kueue", self.ports.kueue_health)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl printed, as the administrator."""
        assert self.tools is not None, "the lab has not been started"
        command = [str(self.tools.program("kubectl")), "--kubeconfig", str(self.kubeconfig), *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True)
        if done.returncode:
            raise LabError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def create(self, objects: Iterable[Object]) -> None:
        self.kubectl("create", "-f", "-", stdin=dump(list(objects)))

    def restart_sshd(self) -> None:
        """End the SSH server with all its connections, as the death of a pod does, and start it again."""
        assert self.ssh is not None, "the lab has not been started"
        connections = children(self.processes.running["sshd"].pid)
        self.processes.kill("sshd")
        for each in connections:  # each is a session of its own
            os.kill(each, signal.SIGKILL)
        self.processes.start("sshd", *self.ssh.again())

    def _start_kubernetes(self, tools: Tools) -> None:
        start, ports = self.processes.start, self.ports
        start("etcd", tools.program("etcd"), *etcd(ports, self.folder))
        start("kube-apiserver", tools.program("kube-apiserver"), *api_server(ports, self.pki))
        api = self.api
        self.processes.wait_ready("kube-apiserver", api.ready)

    def _start_controllers(self, tools: Tools) -> None:
        """Definitions, the three controllers, and only when those answer, their webhooks."""
        first, hooks = self._controller_objects(tools)
        crds = (tools.manifests / "kwok.yaml").read_text()
        self.kubectl("apply", "--server-side", "-f", "-", stdin=f"{dump(first)}\n---\n{crds}")
        self.processes.wait_ready("kube-apiserver", self._definitions_established)
        login = f"--kubeconfig={self.kubeconfig}"
        # Only now: its garbage collector looks for new kinds every half minute, and would leave theirs lying till then.
        self.processes.start("kube-controller-manager", tools.program("kube-controller-manager"), login,
                             *controller_manager(self.ports, self.pki))  # fmt: skip
        self.processes.start("kube-scheduler", tools.program("kube-scheduler"), login, *scheduler(self.ports))
        for name in ("jobset", "kueue"):
            self._start_controller(tools, name)
        path = f"{SOURCE / 'podbin'}:{os.environ['PATH']}"
        self.processes.start("kwok", tools.program("kwok"), login, *kwok(self.ports, self.pki, tools.manifests),
                             environment={"PATH": path, "A4_LAB_SSHD": str(self.ports.ssh)},
                             user=self._kwok_user)  # fmt: skip
        self.create([node for pool in self.pools for node in pool.nodes()] + self._kubelet_objects())
        for name, port in (("jobset", self.ports.jobset_health), ("kueue", self.ports.kueue_health)):
            self._wait_for_controller(name, port)
        self.kubectl("apply", "--server-side", "-f", "-", stdin=dump(hooks))
        self.create(queues() + reader())

    def _start_controller(self, tools: Tools, name: str) -> None:
        configuration, login = f"--config={self.folder}/{name}.yaml", f"--kubeconfig={self.kubeconfig}"
        more = ["--zap-log-level=3"] if name == "kueue" else []  # its decisions, in their order
        self.processes.start(name, tools.program(name), configuration, login, *more)

    def _wait_for_controller(self, name: str, port: int) -> None:
        self.processes.wait_ready(name, lambda: _answers(port))

    def _definitions_established(self) -> bool:
        """Asked here: `kubectl wait` gives up on a definition so young that it has no status."""
        found = self.api.request("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")["items"]
        conditions = [each.get("status", {}).get("conditions") or () for each in found]
        return all(any((it["type"], it["status"]) == ("Established", "True") for it in each) for each in conditions)

    def _controller_objects(self, tools: Tools) -> tuple[list[Object], list[Object]]:
        """Write the controllers' configurations; give what comes before them and what comes after."""
        ports, hooks = self.ports, str(self.pki / "webhook")
        kueue = kueue_configuration(ports.kueue_hook, ports.kueue_health, ports.visibility, hooks)
        jobset = jobset_configuration(ports.jobset_hook, ports.jobset_health, hooks)
        authority = (self.pki / "ca.crt").read_bytes()
        objects: list[Object] = []
        for name, configuration, port in (("kueue", kueue, ports.kueue_hook), ("jobset", jobset, ports.jobset_hook)):
            (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(configuration))
            text = (tools.manifests / f"{name}.yaml").read_text()
            objects += controller_objects(text, authority, port, ports.visibility)
        return [each for each in objects if each["kind"] in FIRST], [
            each for each in objects if each["kind"] not in FIRST
        ]

    def _kubelet_objects(self) -> list[Object]:
        """What kwok does for exec and port-forward in every pod."""
        kind = {"apiVersion": "kwok.x-k8s.io/v1alpha1"}
        local = {"workDir": str(self.pod_root), "envs": [{"name": "HOME", "value": str(self.pod_root)}]}
        target = {"port": self.ports.ssh, "address": "127.0.0.1"}
        return [
            {**kind, "kind": "ClusterExec", "metadata": {"name": "exec"}, "spec": {"execs": [{"local": local}]}},
            {**kind, "kind": "ClusterPortForward", "metadata": {"name": "ssh"},
             "spec": {"forwards": [{"ports": [2222], "target": target}]}},
        ]  # fmt: skip

    def _wait_for_kueue(self) -> None:
        """Until every ClusterQueue is active: admission is then a matter of quota only."""
        self.kubectl("wait", "--for=condition=Active", "clusterqueues.kueue.x-k8s.io", "--all", "--timeout=30s")
        self.kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=30s")
        self.kubectl("wait", "--for=condition=Available", "apiservices", "--all", "--timeout=30s")

    def _place_certificates(self) -> None:
        """Two labs may share these files: nobody checks who signed them, only that they are not out of date."""
        for folder in FIXED:
            if _still_valid(folder / "tls.crt"):
                continue
            try:
                folder.mkdir(parents=True, exist_ok=True)
                for name in ("tls.crt", "tls.key"):
                    shutil.copy(self.pki / "webhook" / name, folder)
            except PermissionError:
                both = " ".join(str(each) for each in FIXED)
                raise LabError(
                    f"Kueue reads its certificates from {both}, fixed paths that this user may not write; "
                    f"run once: sudo install -d -o {os.environ.get('USER', os.geteuid())} {both}"
                ) from None


def _still_valid(certificate: Path) -> bool:
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
    except (OSError, ValueError):
        return False
    key = certificate.with_name("tls.key")
    tomorrow = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    return loaded.not_valid_after_utc > tomorrow and os.access(key, os.R_OK)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
