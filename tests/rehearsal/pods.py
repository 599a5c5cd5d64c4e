"""Pods made of namespaces: each has a network, a process tree, a host name and a root folder of its own.

Run as root in mount, network and process namespaces that nobody else is in: whatever is made here goes with them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.launchers.documents import TRITON

HERE = Path(__file__).resolve().parent
PYTHON = Path(sys.base_prefix)
DOMAIN = "anna.team.svc.cluster.local"
"""Of the first job."""
TOKEN = "hf_rehearsed"
"""The secret of the rehearsal: nobody but root may read it."""
MINE = {"DOMAIN_LINES": "two\nlines and a 'quote'"}
"""A variable of the person's with more than one line."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GIB = "usr/local/gib"


def run(*words: str | Path, **options: Any) -> None:
    """Run a program that has to work; what it says is told when it does not."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(str(word) for word in words)}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Network:
    """One bridge for each interface of the pods."""

    pods: int
    extra: int = 0
    """Interfaces beside eth0."""
    silent: bool = False
    """On the extra ones nothing arrives."""

    def make(self) -> None:
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        Path("/run/netns").mkdir()
        run("ip", "link", "set", "lo", "up")
        for number in range(1 + self.extra):
            run("ip", "link", "add", f"bridge{number}", "type", "bridge")
            run("ip", "link", "set", f"bridge{number}", "up")
        run("ip", "address", "add", "10.77.0.1/24", "dev", "bridge0")

    def join(self, index: int) -> str:
        """Make the network of one pod, and return its name."""
        name = f"pod{index}"
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        for number in range(1 + self.extra):
            own = f"v{index}x{number}"
            run("ip", "link", "add", own, "type", "veth", "peer", "name", f"eth{number}", "netns", name)
            run("ip", "link", "set", own, "master", f"bridge{number}", "up")
            run("ip", "-n", name, "address", "add", f"10.{77 + number}.0.{index + 2}/24", "dev", f"eth{number}")
            run("ip", "-n", name, "link", "set", f"eth{number}", "up")
            if number and self.silent:
                self._silence(name, index, number)
        run("ip", "-n", name, "route", "add", "default", "via", "10.77.0.1")
        return name

    def _silence(self, name: str, index: int, number: int) -> None:
        for other in range(self.pods):
            if other != index:
                address = f"10.{77 + number}.0.{other + 2}"
                gone = ("lladdr", "02:00:00:00:00:99", "dev", f"eth{number}", "nud", "permanent")
                run("ip", "-n", name, "neigh", "add", address, *gone)


@dataclass(slots=True)
class Pod:
    """One pod of a rendered job: its root folder, its environment, and its container while it runs."""

    number: int
    """Among all pods of the case; its address goes by it."""
    index: int
    release: str
    """Its job: name and namespace."""
    folder: Path
    network: str
    manifests: list[dict[str, Any]]
    share: Path
    present: Sequence[int]
    """The pods of its job whose names resolve."""
    uid: str
    waits: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    killed: bool = False

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def calls(self) -> Path:
        return self.folder / "calls"

    @property
    def host(self) -> str:
        return f"{self.release.partition('.')[0]}-workload-0-{self.index}"

    def _kind(self, kind: str) -> dict[str, Any]:
        return next(manifest for manifest in self.manifests if manifest["kind"] == kind)

    @property
    def spec(self) -> dict[str, Any]:
        template = self._kind("JobSet")["spec"]["replicatedJobs"][0]["template"]
        spec: dict[str, Any] = template["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> dict[str, Any]:
        container: dict[str, Any] = self.spec["containers"][0]
        return container

    def make(self, tools: Path, disk: str) -> None:
        """Lay out the root folder; `disk` is the size of its /tmp."""
        for name in ("calls", "disk", "root"):
            (self.folder / name).mkdir(parents=True)
        run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.folder / "disk")
        upper, work = self.folder / "disk/upper", self.folder / "disk/work"
        upper.mkdir()
        work.mkdir()
        run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", self.root)
        # What the machine's own accounts, programs and settings are is not the pods' business.
        for name in (
            "root",
            "run",
            "tmp",
            "mnt",
            "lustre",
            "rehearsal",
            "dev",
            "proc",
            "usr/local/bin",
            "usr/local/sbin",
        ):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        for name in ("root", "run", "usr/local/bin", "usr/local/sbin"):
            run("mount", "-t", "tmpfs", "-o", "size=1m,mode=0755", "tmpfs", self.root / name)
        shutil.rmtree(upper / "tmp", ignore_errors=True)
        self._bind(Path("/dev"), "dev")
        self._bind(Path("/sys"), "sys")
        run("mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", self.root / "dev/shm")
        run("mount", "-t", "tmpfs", "-o", f"size={disk},mode=1777", "tmpfs", self.root / "tmp")
        for name in ("mnt", "lustre"):
            self._bind(self.share / name, name)
        self._tools(tools)
        self._volumes(tools)
        self._files()

    def _bind(self, source: Path, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)
        run("mount", "--rbind", source, self.root / name)

    def _tools(self, tools: Path) -> None:
        run("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", self.root / "rehearsal")
        self._bind(PYTHON, "rehearsal/python")
        self._bind(self.calls, "rehearsal/calls")
        shutil.copy(HERE / "standins/program.py", self.root / "rehearsal/program.py")
        launcher = '#!/bin/bash\nexec /rehearsal/python/bin/python3 -IS /rehearsal/program.py "$0" "$@"\n'
        names = subprocess.run(
            [sys.executable, str(HERE / "standins/program.py"), "--names"], capture_output=True, text=True, check=True
        ).stdout.split()
        (self.root / "rehearsal/bin").mkdir()
        for name in names:
            folder = "rehearsal/bin" if name.endswith(".sh") else "usr/local/bin"
            (self.root / folder / name).write_text(launcher)
            (self.root / folder / name).chmod(0o755)
        # What the driver of the node and the image bring.
        shutil.copy(tools / "libcuda.so.1", self.root / "usr/local/lib/libcuda.so.1")
        triton = self.root / TRITON[1:]
        triton.parent.mkdir(parents=True)
        triton.write_text('    libs = subprocess.check_output(["ldconfig", "-p"]).decode()\n')
        python = self.root / "usr/local/bin/python3"
        python.write_text('#!/bin/bash\nexec /rehearsal/python/bin/python3 "$@"\n')
        python.chmod(0o755)
        if self.spec.get("initContainers"):
            # What the init container of gIB copies into the pod.
            for name in (f"{_GIB}/scripts", f"{_GIB}/lib64", "third_party/nccl-tests/build"):
                (self.root / name).mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / "standins/set_nccl_env.sh", self.root / _GIB / "scripts")
            shutil.copy(tools / "all_reduce_perf", self.root / "third_party/nccl-tests/build")

    def _volumes(self, tools: Path) -> None:
        launchers, keys = self.root / "a4/launchers", self.root / "a4/ssh"
        launchers.mkdir(parents=True)
        keys.mkdir()
        for name, text in self._kind("ConfigMap")["data"].items():
            (launchers / name).write_text(text)
            (launchers / name).chmod(0o755)
        # The console shows no Secret as it is: the keys in it are made here, of the kind that the chart makes.
        for name in self._kind("Secret")["data"]:
            shutil.copy(tools / name, keys / name)
            (keys / name).chmod(0o400)

    def _files(self) -> None:
        prefix, first = self.host.removesuffix(str(self.index)), self.number - self.index + 2
        names = [
            f"10.77.0.{first + other} {prefix}{other}.{self.release}.svc.cluster.local {prefix}{other}"
            for other in self.present
        ]
        (self.root / "etc/hosts").write_text("\n".join(["127.0.0.1 localhost", *names, ""]))
        (self.root / "etc/resolv.conf").write_text("")
        (self.root / "etc/hostname").write_text(f"{self.host}\n")
        for name in (".bashrc", ".profile"):
            skeleton = Path("/etc/skel") / name
            if skeleton.exists():
                shutil.copy(skeleton, self.root / "root" / name)

    def environment(self) -> dict[str, str]:
        given = {
            "PATH": PATH,
            "HOME": "/root",
            "HOSTNAME": self.host,
            "LANG": "C",
            "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64",
        }
        known = {
            "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(self.index),
            "metadata.labels['batch.kubernetes.io/controller-uid']": self.uid,
            "metadata.annotations['kueue.x-k8s.io/workload']": "jobset-anna-1" if self._queued else "",
        }
        for entry in self.container["env"]:
            if "value" in entry:
                given[entry["name"]] = entry["value"].replace("$(JOB_UUID)", self.uid)
            elif "secretKeyRef" in entry["valueFrom"]:
                given[entry["name"]] = TOKEN
            else:
                given[entry["name"]] = known.get(entry["valueFrom"]["fieldRef"]["fieldPath"], "")
        return given | MINE | self.waits

    @property
    def _queued(self) -> bool:
        return "kueue.x-k8s.io/queue-name" in self._kind("JobSet")["metadata"].get("labels", {})

    def start(self) -> None:
        """Start the container: its command is the first process of its tree, as in a pod."""
        command = shlex.join([*self.container["command"], *self.container.get("args", [])])
        inside = f"hostname {self.host}; mount -t proc proc {self.root}/proc; exec chroot {self.root} {command}"
        words = [
            "ip",
            "netns",
            "exec",
            self.network,
            "unshare",
            "-m",
            "-u",
            "-p",
            "-f",
            "--kill-child",
            "bash",
            "-c",
            inside,
        ]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, env=self.environment())

    def enter(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in the running pod, as `kubectl exec` does: with the container's environment."""
        inside = ["nsenter", "-t", str(self.first()), "-m", "-u", "-n", "-p", "chroot", str(self.root), *words]
        return subprocess.run(
            inside, env=self.environment(), capture_output=True, text=True, check=False, timeout=20, **options
        )

    def first(self) -> int:
        """The container's first process, as it is called out here."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the container's first process."""
        if self.process is not None and self.process.poll() is None:
            self.killed = self.killed or number is signal.SIGKILL
            try:
                os.kill(self.first(), number)
            except (IndexError, ProcessLookupError):
                return  # it has ended meanwhile

    def code(self) -> int | None:
        """How the container ended; None while it runs, or before."""
        return None if self.process is None else self.process.poll()

    def text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""
