"""`a4 forward` and `kubectl port-forward` on the lab in turns, and the first byte of `a4 proxy`; medians."""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from console.kube.pod_address import SSH_PORT
from tests.bench.bulk import client
from tests.bench.consoles import A4
from tests.bench.rows import Bound, Ratio
from tests.contract.space import jobset
from tests.lab.control_plane import Lab

JOB = "bench-tunnels"
REMOTE = 9999
READY = 60.0
ROUNDS = 7
ONE, EIGHT, UP = 400_000_000, 640_000_000, -240_000_000
"""Bytes of a round: over one connection, over eight together, and to the pod."""
WHOLE = 1_000_000_000
IDLE = 50
REST = 20.0
"""Seconds for which idle tunnels are watched."""
FIRST_BYTES = 11
CONNECTIONS = 40
PAUSE = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


def main(say: Callable[[str], None], bound: Bound, ratio: Ratio, faster: Ratio) -> bool:
    """Measure and print; whether all bounds are kept."""
    with tempfile.TemporaryDirectory() as state, Lab(say=say) as lab, ExitStack() as stack:
        os.environ["XDG_STATE_HOME"] = state
        pod = prepare(lab, stack.enter_context(source()))
        ours, process = stack.enter_context(a4(lab, REMOTE))
        theirs, peer = stack.enter_context(kubectl(lab, pod))
        mine, other = connections(ours, theirs)
        kept = [
            faster("1 stream (MB/s)", *rates(ours, theirs, ONE, 1), 1.2),
            # On two cores the lab's API server and node take 1.7 of the 2.5 s of processor that these bytes cost.
            faster("8 streams (MB/s)", *rates(ours, theirs, EIGHT, 8), 1.2),
            ratio("8 streams, our processor (s)", cost(process.pid, ours), cost(peer.pid, theirs), 0.95),
            faster("1 stream to the pod (MB/s)", *rates(ours, theirs, UP, 1), None),
            ratio("new connection and a byte (ms)", mine, other, 1.5),
            bound("growth over 1 GB (MiB)", growth(process.pid, ours), 8),
            bound("50 idle tunnels (% of a core)", 100 * idle(lab), 1),
            bound("a4 proxy: first byte (ms)", 1000 * first_byte(lab), 150),
        ]
    return all(kept)


def prepare(lab: Lab, port: int) -> str:
    """A job of one pod whose port leads to the server; the pod's name."""
    forwards = [{"ports": [REMOTE + at], "target": {"address": "127.0.0.1", "port": port}} for at in range(IDLE)]
    # kwok heeds one such object only, so the lab's own port has to be named here too.
    forwards.append({"ports": [SSH_PORT], "target": {"address": "127.0.0.1", "port": lab.ports.ssh}})
    lab.create([
        jobset(JOB, "a4", 1, topology=""),
        {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward", "metadata": {"name": JOB},
         "spec": {"forwards": forwards}},
    ])  # fmt: skip
    selector = ["-l", f"jobset.sigs.k8s.io/jobset-name={JOB}", "--field-selector=status.phase=Running", "-o", "name"]
    end = time.monotonic() + READY
    while not (found := lab.kubectl("get", "pods", *selector).split()):
        assert time.monotonic() < end, f"{JOB} does not run"
    return found[0]


@contextmanager
def running(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def source() -> Iterator[int]:
    """The server behind the pod's port."""
    with running(sys.executable, "-m", "tests.bench.bulk") as process:
        assert process.stdout is not None
        yield int(process.stdout.readline())


@contextmanager
def a4(lab: Lab, *remotes: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`a4 forward`; its first local port."""
    command = (str(A4), "forward", JOB, "0", *(f":{each}" for each in remotes), "--kubeconfig", str(lab.kubeconfig))
    with running(*command) as process:
        assert process.stdout is not None
        # "127.0.0.1:9999 forwards to port 9999 of …", a line for each
        lines = [process.stdout.readline() for _ in remotes]
        port = int(lines[0].split(" ")[0].partition(":")[2])
        wait_for(port)
        yield port, process


@contextmanager
def kubectl(lab: Lab, pod: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """`kubectl port-forward`; its local port."""
    assert lab.tools is not None
    program = str(lab.tools.program("kubectl"))
    with running(program, "--kubeconfig", str(lab.kubeconfig), "port-forward", pod, f":{REMOTE}") as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().split(" -> ")[0].rpartition(":")[2])
        wait_for(port)
        yield port, process


def wait_for(port: int) -> None:
    """kwok hears of the pod's port a moment after it was named."""
    end = time.monotonic() + READY
    while True:
        try:
            client(port, 1)
        except OSError:
            assert time.monotonic() < end, f"port {port} does not answer"
        else:
            return


def transfer(port: int, amount: int, streams: int) -> float:
    """MB/s of so many bytes over so many connections together."""
    threads = [threading.Thread(target=client, args=(port, amount // streams)) for _ in range(streams)]
    began = time.perf_counter()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return abs(amount) / 1e6 / (time.perf_counter() - began)


def rates(ours: int, theirs: int, amount: int, streams: int) -> tuple[float, float]:
    """Median MB/s of both, in turn."""
    rounds = [(transfer(ours, amount, streams), transfer(theirs, amount, streams)) for _ in range(ROUNDS)]
    mine, other = zip(*rounds, strict=True)
    return statistics.median(mine), statistics.median(other)


def connections(*ports: int) -> list[float]:
    """Median milliseconds of a new connection and its first byte, over these in turn, with the rests of a person's."""
    times: dict[int, list[float]] = {port: [] for port in ports}
    for _ in range(CONNECTIONS):
        for port in ports:
            began = time.perf_counter()
            client(port, 1)
            times[port].append(1000 * (time.perf_counter() - began))
            threading.Event().wait(PAUSE)
    return [statistics.median(times[port]) for port in ports]


def cost(pid: int, port: int) -> float:
    """Median seconds of a core that the process takes for a round of eight connections."""
    times = [cpu(pid)]
    for _ in range(ROUNDS):
        transfer(port, EIGHT, 8)
        times.append(cpu(pid))
    return statistics.median(after - before for before, after in pairwise(times))


def growth(pid: int, port: int) -> float:
    """MiB by which the process grows while 1 GB goes through it."""
    before = memory(pid)
    transfer(port, WHOLE, 1)
    return memory(pid) - before


def memory(pid: int) -> float:
    """Resident MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def cpu(pid: int) -> float:
    """Seconds of a core used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def idle(lab: Lab) -> float:
    """Share of a core for tunnels through each of which a connection stands and says nothing."""
    with a4(lab, *range(REMOTE, REMOTE + IDLE)) as (_, process), ExitStack() as stack:
        command = [str(A4), "tunnels", "--json"]
        listed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["items"]
        (tunnel,) = (each for each in listed if each["pid"] == process.pid)
        for each in tunnel["listeners"]:
            stack.enter_context(socket.create_connection(("127.0.0.1", each["local"]))).sendall(b"0")
        before, start = cpu(process.pid), time.perf_counter()
        threading.Event().wait(REST)
        return (cpu(process.pid) - before) / (time.perf_counter() - start)


def first_byte(lab: Lab) -> float:
    """Median seconds from starting `a4 proxy` to sshd's first byte."""
    command = [str(A4), "proxy", "--kubeconfig", str(lab.kubeconfig), JOB, "0"]
    times = []
    for _ in range(FIRST_BYTES):
        began = time.perf_counter()
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.read(1) == b"S"
            times.append(time.perf_counter() - began)
            process.kill()
    return statistics.median(times)
