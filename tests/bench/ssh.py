"""`ssh a4-JOB-0 true`, `kubectl port-forward` and a shared connection on the lab, in alternating rounds; medians."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import monotonic

from tests.bench.consoles import A4
from tests.contract.space import jobset
from tests.lab.control_plane import Lab

JOB = "bench-ssh"
ROUNDS = 9
READY = 60.0
"""Seconds until the job's pod runs."""


class Pair:
    """One rank, reached both ways."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        assert lab.ssh is not None
        assert lab.tools is not None
        self.lab = lab
        self.config = folder / "config"
        self.environment = {**os.environ, "A4_SSH_FOLDER": str(folder)}
        self.kubectl = [str(lab.tools.program("kubectl")), "--kubeconfig", str(lab.kubeconfig)]
        self.key = str(lab.ssh.client_key)
        self.pod = self._pod()

    def _pod(self) -> str:
        self.lab.create([jobset(JOB, "a4", 1, topology="")])
        selector = [
            "-l",
            f"jobset.sigs.k8s.io/jobset-name={JOB}",
            "--field-selector=status.phase=Running",
            "-o",
            "name",
        ]
        end = monotonic() + READY
        while not (found := self.lab.kubectl("get", "pods", *selector).split()):
            assert monotonic() < end, f"{JOB} does not run"
        return found[0]

    def set_up(self) -> None:
        """Write the host, its connections shared."""
        command = [str(A4), "ssh", JOB, "0", "--json", "--kubeconfig", str(self.lab.kubeconfig), "--identity", self.key]
        subprocess.run([*command, "--share", "--yes"], env=self.environment, check=True, capture_output=True)

    def ours(self) -> float:
        """Seconds of ssh by name, over a connection of its own."""
        return timed(["ssh", "-F", str(self.config), "-S", "none", f"a4-{JOB}-0", "true"])

    def shared(self) -> float:
        """Seconds of ssh by name over the connection that stands; the first call makes it."""
        return timed(["ssh", "-F", str(self.config), f"a4-{JOB}-0", "true"])

    def theirs(self) -> float:
        """Seconds of kubectl port-forward from its start, and ssh through it."""
        began = monotonic()
        forward = [*self.kubectl, "port-forward", self.pod, ":2222"]
        with subprocess.Popen(forward, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            port = process.stdout.readline().split(" -> ")[0].rpartition(":")[2]
            options = ["-F", "none", "-p", port, "-i", self.key, "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
                       "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null"]  # fmt: skip
            timed(["ssh", *options, "root@127.0.0.1" if os.geteuid() == 0 else "127.0.0.1", "true"])
            took = monotonic() - began
            process.terminate()
        return took

    def close(self) -> None:
        """End a shared connection."""
        subprocess.run(["ssh", "-F", str(self.config), "-O", "exit", f"a4-{JOB}-0"], capture_output=True, check=False)


def timed(command: list[str]) -> float:
    began = monotonic()
    subprocess.run(command, stdin=subprocess.DEVNULL, check=True, capture_output=True)
    return monotonic() - began


def measure(lab: Lab) -> dict[str, float]:
    """Median seconds: ssh by name, through kubectl, and by name over a connection that stands."""
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(lab, Path(folder))
        pair.set_up()
        ways = {"ours": pair.ours, "kubectl": pair.theirs, "shared": pair.shared}
        for way in ways.values():
            way()
        taken: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, way in ways.items():
                taken[name].append(way())
        pair.close()
        lab.kubectl("delete", "jobset", JOB)
    return {name: statistics.median(each) for name, each in taken.items()}


if __name__ == "__main__":
    from tests.lab.control_plane import Lab

    with Lab() as running:
        sys.stdout.write(json.dumps(measure(running), indent=1) + "\n")
