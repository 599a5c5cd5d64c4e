"""The ranks of a job as pods of one machine.

With a GPU for each rank, they are processes of one host and speak over NVLink. With fewer GPUs several share one: NCCL
takes them for different hosts (NCCL_HOSTID), so that it does not refuse, and they speak through sockets, each in a
network namespace of its own where that is allowed. NVIDIA's MPS, where it is there, gives each its own part of the GPU.
It stands alone, for a machine that has nothing but PyTorch.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPTS = ROOT / "parts" / "rankscope" / "src" / "rankscope"
BRIDGE = "a4bench"


def count_gpus() -> int:
    tool = shutil.which("nvidia-smi")
    said = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False).stdout if tool else ""
    return said.count("GPU ")


def diagnosis_env() -> dict[str, str]:
    """What the chart's switch `diagnosis` sets."""
    text = (ROOT / "chart" / "templates" / "_env.tpl").read_text()
    block = text.partition('define "a4.diagnosisEnv"')[2].partition("{{- end -}}")[0]
    return {name: value.strip('"') for name, value in re.findall(r"^([A-Z_]+): (.+)$", block, re.MULTILINE)}


def run(*argv: str) -> bool:
    """Whether a command did what it should; a machine without the program is one where it did not."""
    return bool(shutil.which(argv[0])) and not subprocess.run(argv, capture_output=True, check=False).returncode


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as door:
        return int(door.getsockname()[1])


@dataclass
class Pods:
    """The pods of one job."""

    ranks: int
    a_pod: int = 1  # ranks
    net: int = 0  # number of their network
    gpus: int = field(default_factory=count_gpus)
    apart: bool = False  # each has a network namespace

    def __post_init__(self) -> None:
        self.names = [f"a4b{self.net}-{pod}" for pod in range(self.ranks // self.a_pod)]

    @property
    def shares_gpus(self) -> bool:
        return self.gpus < self.ranks

    def make_networks(self) -> None:
        """A namespace for each pod, all on one bridge; none where that is not allowed or NVLink would not work."""
        ip, bridge = shutil.which("ip") or "ip", f"{BRIDGE}{self.net}"
        self.drop_networks()
        if self.gpus and not self.shares_gpus:
            return
        if not (run(ip, "link", "add", "name", bridge, "type", "bridge") and run(ip, "link", "set", bridge, "up")):
            return
        for pod, name in enumerate(self.names):
            outer = f"a4v{self.net}-{pod}"
            done = (
                run(ip, "netns", "add", name)
                and run(ip, "link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", name)
                and run(ip, "link", "set", outer, "master", bridge)
                and run(ip, "link", "set", outer, "up")
                and run(ip, "-n", name, "addr", "add", f"10.77.{self.net}.{pod + 1}/24", "dev", "eth0")
                and run(ip, "-n", name, "link", "set", "eth0", "up")
                and run(ip, "-n", name, "link", "set", "lo", "up")
            )
            if not done:
                self.drop_networks()
                return
        self.apart = True

    def drop_networks(self) -> None:
        ip = shutil.which("ip") or "ip"
        for name in self.names:
            run(ip, "netns", "del", name)
        run(ip, "link", "del", f"{BRIDGE}{self.net}")
        self.apart = False

    def slow_link(self, pod: int, *how: str) -> None:
        """Both directions of a pod's traffic through tc, such as `netem delay 1ms`; nothing ends it."""
        tc, name, outer = shutil.which("tc") or "tc", self.names[pod], f"a4v{self.net}-{pod}"
        for argv in ((tc, "-n", name, "qdisc"), (tc, "qdisc")):
            dev = ("dev", "eth0" if "-n" in argv else outer, "root")
            done = run(*argv, "replace", *dev, *how) if how else run(*argv, "del", *dev) or True
            if not done:
                sys.exit(f"tc cannot slow a link: {' '.join((*argv, 'replace', *dev, *how))}")

    def address(self, pod: int) -> str:
        return f"10.77.{self.net}.{pod + 1}" if self.apart else "127.0.0.1"

    def inside(self, pod: int, argv: list[str]) -> list[str]:
        return [shutil.which("ip") or "ip", "netns", "exec", self.names[pod], *argv] if self.apart else argv

    def env(self, rank: int, folder: Path, port: int, ras_port: int, *, diagnosis: bool = True) -> dict[str, str]:
        """The environment of a rank: what a pod of the chart has, and what makes sharing a GPU possible."""
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(self.ranks), "LOCAL_RANK": str(rank % self.a_pod),
               "MASTER_ADDR": self.address(0), "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
               "NCCL_NVLS_ENABLE": "0", "NCCL_RAS_ADDR": f"localhost:{ras_port}"}  # fmt: skip
        if self.gpus:
            env |= {"CUDA_VISIBLE_DEVICES": str(rank % self.gpus),
                    "NCCL_SOCKET_IFNAME": "eth0" if self.apart else "lo"}  # fmt: skip
        if self.shares_gpus:
            env |= {"NCCL_HOSTID": f"host-{rank}", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
                    "NCCL_IB_DISABLE": "1"}  # fmt: skip
        if self.apart:
            env["GLOO_SOCKET_IFNAME"] = "eth0"
        switch = diagnosis_env()
        if not diagnosis:
            return env | {"NCCL_RAS_ENABLE": "0"}
        return env | {name: value.replace("/tmp/", f"{folder}/") for name, value in switch.items()}

    def start(self, program: list[str], folder: Path, *, ras_port: int = 28028, diagnosis: bool = True,
              more: dict[str, str] | None = None) -> list[subprocess.Popen[bytes]]:  # fmt: skip
        """Start a rank in each pod; what it prints goes to log-RANK in the folder."""
        port, begun = free_port(), []
        for rank in range(self.ranks):
            env = self.env(rank, folder, port, ras_port, diagnosis=diagnosis) | (more or {})
            with (folder / f"log-{rank}").open("wb") as log:
                argv = self.inside(rank // self.a_pod, [sys.executable, "-u", *program])
                begun.append(subprocess.Popen(argv, env=env, stdout=log, stderr=log, start_new_session=True))
        return begun

    def ask(self, folder: Path, begun: list[subprocess.Popen[bytes]], ras_port: int, *words: str) -> list[bytes]:
        """What the console's probe says in each pod."""

        def look(pod: int) -> bytes:
            proc = folder / f"proc-{pod}"
            proc.mkdir(exist_ok=True)
            for process in begun[pod * self.a_pod : (pod + 1) * self.a_pod]:
                for pid in with_children(process.pid):
                    with contextlib.suppress(FileExistsError):
                        (proc / str(pid)).symlink_to(f"/proc/{pid}")
            return self.ask_one(pod, ras_port, *words, env={"A4_PROC": str(proc)})

        with ThreadPoolExecutor(len(self.names)) as pool:
            return list(pool.map(look, range(len(self.names))))

    def ask_one(self, pod: int, ras_port: int, *words: str, env: dict[str, str] | None = None) -> bytes:
        argv = self.inside(pod, [sys.executable, str(SCRIPTS / "probe.py"), *words])
        whole = {**os.environ, "A4_RDMA": "/nowhere", "NCCL_RAS_ADDR": f"localhost:{ras_port}", **(env or {})}
        return subprocess.run(argv, env=whole, capture_output=True, check=True, timeout=90).stdout

    def poll(self, seconds: float, ras_port: int, *more: str) -> bytes:
        """What the console's script makes of NCCL's answers in the first pod."""
        argv = self.inside(0, [sys.executable, str(SCRIPTS / "poll_ras.py"), f"{seconds:g}", *more])
        env = {**os.environ, "NCCL_RAS_ADDR": f"localhost:{ras_port}"}
        return subprocess.run(argv, env=env, capture_output=True, check=True).stdout


def with_children(pid: int) -> list[int]:
    """A process and those that it has started."""
    with contextlib.suppress(FileNotFoundError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(int(each) for each in children)]
    return []


def wait_for(folder: Path, pattern: str, number: int, begun: list[subprocess.Popen[bytes]], limit: float = 120) -> None:
    end = time.monotonic() + limit
    while len(list(folder.glob(pattern))) < number:
        if time.monotonic() > end or any(each.poll() is not None for each in begun):
            logs = "\n".join(each.read_text(errors="replace")[-1500:] for each in sorted(folder.glob("log-*")))
            sys.exit(f"the ranks have not begun: {logs}")
        time.sleep(0.05)


def end_all(begun: list[subprocess.Popen[bytes]]) -> None:
    for process in begun:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def shared_gpus(part: int) -> Iterator[bool]:
    """NVIDIA's MPS for all ranks, each with so many percent of a GPU, below 100; yields whether it is there."""
    tool = shutil.which("nvidia-cuda-mps-control")
    if not tool or part >= 100:
        yield False
        return
    for name in ("PIPE", "LOG"):
        place = Path(f"/tmp/a4-mps-{name.lower()}")
        place.mkdir(exist_ok=True)
        os.environ[f"CUDA_MPS_{name}_DIRECTORY"] = str(place)
    os.environ["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(part)
    subprocess.run([tool, "-d"], check=True)
    try:
        yield True
    finally:
        subprocess.run([tool], input=b"quit\n", check=False)
