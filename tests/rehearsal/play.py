"""Play one case: make its pods, start them, do to them what the case says, and see how they end.

`python -m tests.rehearsal.play FOLDER` inside the namespaces of the case; FOLDER/case.json says what to do, and
FOLDER/seen.json what was seen.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

from tests.rehearsal.pods import TOKEN, Network, Pod, run
from tests.rehearsal.shells import look_into

WAITS = {
    "A4_RETRY_SECONDS": "0.2", "A4_POLL_SECONDS": "0.2", "A4_PLACE_TRIES": "1", "A4_LOST_SECONDS": "20",
    "A4_GRACE_SECONDS": "10", "A4_AGAIN_SECONDS": "0",
    # Thirty-two processes share a core here: one that waits lets the others go on.
    "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
}  # fmt: skip
"""What pods of the rehearsal wait shorter for than others."""
GRACE = 8.0
"""Seconds between the signal to end and the one that kills; Kubernetes gives thirty."""
UID = "5e0c6f1a-0000-4000-8000-{:012}"
KEPT = "the pod is kept until the job is stopped"


@dataclass(slots=True)
class Attempt:
    """One run of a job: the pods, and how they ended."""

    codes: list[int | None] = field(default_factory=list)
    seconds: float = 0.0
    stalled: list[int] = field(default_factory=list)
    """Pods that had not ended in time."""
    killed: list[int] = field(default_factory=list)
    """Pods that the signal to end did not end."""
    kept: bool = False
    logs: list[str] = field(default_factory=list)
    calls: list[list[dict[str, Any]]] = field(default_factory=list)
    """Calls of the stand-ins in each pod."""
    shells: list[str] = field(default_factory=list)
    """What a shell in a pod lacks."""
    open_secrets: list[str] = field(default_factory=list)
    """Files with the secret that others than root may read."""


class Play:
    """The pods of one attempt, watched as Kubernetes watches them."""

    def __init__(self, folder: Path, case: dict[str, Any], number: int) -> None:
        self._case, self._number = case, number
        self._folder = folder
        self._pods: list[Pod] = []
        self._began = monotonic()
        self._attempt = Attempt()
        self._struck: set[int] = set()

    def make(self) -> None:
        """Lay the pods out, without starting one."""
        case, absent = self._case, set(self._case["absent"])
        network = Network(case["nodes"] * len(case["releases"]), case["extra"], case["silent"])
        if self._number == 0:
            network.make()
            for name in ("mnt", "lustre"):
                (self._folder / "share" / name).mkdir(parents=True)
                size = f"size={case['share_disk']}"
                run("mount", "-t", "tmpfs", "-o", size, "tmpfs", self._folder / "share" / name)
            for path in case["there"]:
                (self._folder / "share" / path.lstrip("/")).mkdir(parents=True)
        nodes = case["nodes"]
        for number in range(nodes * len(case["releases"])):
            if number in absent:
                continue
            job, index = divmod(number, nodes)
            name = network.join(number) if self._number == 0 else f"pod{number}"
            pod = Pod(
                number, index, case["releases"][job], self._folder / f"attempt{self._number}" / f"pod{number}", name,
                case["manifests"][job], self._folder / "share",
                [each for each in range(nodes) if job * nodes + each not in absent],
                UID.format(10 * job + self._number + 1),
                WAITS | {"A4_DISCOVERY_SECONDS": str(case["discovery"])} | case["variables"],
            )  # fmt: skip
            pod.make(Path(case["tools"]), case["disk"])
            faults = case["attempts"][self._number]
            (pod.root / "rehearsal/faults.json").write_text(json.dumps(faults))
            if "all_reduce_perf" in faults:
                (pod.root / "rehearsal/all_reduce_fails").touch()
            self._pods.append(pod)

    def run(self) -> Attempt:
        """Start the pods and watch them to their end."""
        self._began = monotonic()
        while not self._over():
            for pod in self._pods:
                if pod.process is None and self._is_time(self._case["late"].get(str(pod.number), 0.0)):
                    pod.start()
            self._strike()
            Event().wait(0.05)
        found = self._attempt
        found.seconds = monotonic() - self._began
        self._end()
        found.codes = [pod.code() for pod in self._pods]
        found.killed = [pod.number for pod in self._pods if pod.killed and pod.number not in self._struck]
        found.logs = [pod.text() for pod in self._pods]
        found.calls = [calls(pod) for pod in self._pods]
        found.open_secrets = [path for pod in self._pods for path in open_secrets(pod)]
        for pod in self._pods:
            for name in ("root", "disk"):
                run("umount", "-R", "-l", pod.folder / name)
        return found

    def _is_time(self, late: float | str) -> bool:
        if isinstance(late, str):
            return any(re.search(late, pod.text()) for pod in self._pods)
        return monotonic() - self._began >= late

    def _over(self) -> bool:
        started = [pod.code() for pod in self._pods if pod.process is not None]
        if len(started) == len(self._pods) and all(code is not None for code in started):
            return True
        # One pod that failed fails the job, and Kubernetes ends the others.
        if any(code not in (None, 0) for code in started):
            return True
        if all(KEPT in pod.text() for pod in self._pods):
            self._attempt.kept = True
            if self._case["recipe"] == "interactive" and not self._attempt.shells:
                self._attempt.shells = look_into(self._pods, self._folder)
            return True
        if monotonic() - self._began > self._case["limit"]:
            self._attempt.stalled = [pod.number for pod in self._pods if pod.code() is None]
            return True
        return False

    def _strike(self) -> None:
        if self._number:
            return
        if self._case["told"] and any(re.search(self._case["told"], pod.text()) for pod in self._pods):
            self._case["told"] = ""
            for pod in self._pods:
                pod.signal(signal.SIGTERM)
        for number, line in self._case["killed"].items():
            pod = next(pod for pod in self._pods if pod.number == int(number))
            if pod.number not in self._struck and re.search(line, pod.text()):
                self._struck.add(pod.number)
                pod.signal(signal.SIGKILL)

    def _end(self) -> None:
        """End what still runs: by the signal Kubernetes sends, and after the grace period by force."""
        for pod in self._pods:
            if pod.process is not None and pod.code() is None:
                pod.signal(signal.SIGTERM)
        until = monotonic() + GRACE
        while monotonic() < until and any(pod.process is not None and pod.code() is None for pod in self._pods):
            Event().wait(0.05)
        for pod in self._pods:
            if pod.process is not None and pod.code() is None:
                pod.signal(signal.SIGKILL)
                pod.process.wait()


def calls(pod: Pod) -> list[dict[str, Any]]:
    """The calls of stand-ins in a pod, in their order."""
    found = []
    for file in sorted(pod.calls.iterdir()):
        arguments, environment, folder = file.read_text(errors="replace").split("\x1e")
        given = dict(entry.split("=", 1) for entry in environment.split("\x1f") if "=" in entry)
        words = arguments.split("\x1f") if arguments else []
        found.append({"program": file.name.split("-", 2)[2], "arguments": words, "env": given, "folder": folder})
    return found


def open_secrets(pod: Pod) -> list[str]:
    """Files that the pod has written, which hold the secret and which others than root may read."""
    found = []
    written = [pod.root / name for name in ("tmp", "root", "run", "mnt", "lustre")]
    for place in (*written, pod.folder / "disk/upper"):
        for file in place.rglob("*"):
            is_open = file.is_file() and not file.is_symlink() and file.stat().st_mode & 0o077
            if is_open and TOKEN.encode() in file.read_bytes():
                found.append(str(file.relative_to(pod.folder)))
    return found


def main() -> None:
    """Play all attempts of the case one after the other, on the same shared folders."""
    folder = Path(sys.argv[1])
    case, seen = json.loads((folder / "case.json").read_text()), []
    for number in range(len(case["attempts"])):
        play = Play(folder, case, number)
        play.make()
        attempt = play.run()
        seen.append({name: getattr(attempt, name) for name in Attempt.__slots__})
    shared = [
        f"/{name}/{path.relative_to(folder / 'share' / name)}"
        for name in ("mnt", "lustre")
        for path in sorted((folder / "share" / name).rglob("*"))
        if ".git" not in path.parts
    ]
    (folder / "seen.json").write_text(json.dumps({"attempts": seen, "shared": shared}))


if __name__ == "__main__":
    main()
