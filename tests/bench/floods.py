"""Every plain command against every flood that reaches it: seconds, peak memory, exit code and last words.

`python -m tests.bench floods`; `python -m tests.bench.floods PART ...` runs only the pairs whose text contains one of
the parts.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from practice.child import PracticeProcess
from tests.bench.consoles import A4
from tests.hostile.lying_api import FLOODS

SECONDS, MEMORY = 10.0, 300.0
PATIENCE = 60.0
"""Seconds after which a command is interrupted as by Ctrl-C."""
JOB = "llama-70b"
IN_PODS = {
    "facts": ("facts", JOB, "0"),
    "hang": ("hang", JOB),
    "slow": ("slow", JOB, "--seconds", "1"),
    "gpus": ("gpus", JOB),
    "gpus, nvidia-smi": ("gpus", JOB, "--source", "nvidia-smi"),
    "nccl-quick": ("nccl-quick", JOB, "0", "--limit", "6"),
    "exec --all": ("exec", JOB, "--all", "--limit", "6", "--", "true"),
    "exec --all --json": ("exec", JOB, "--all", "--json", "--limit", "6", "--", "true"),
    "exec --all --grouped": ("exec", JOB, "--all", "--grouped", "--limit", "6", "--", "true"),
    "ls": ("ls", f"{JOB}:0:/"),
    "cp from": ("cp", f"{JOB}:0:/etc/hostname", "{folder}"),
    "cp to": ("cp", "{folder}/lying.kubeconfig", f"{JOB}:0:/tmp/"),
    "doctor": ("doctor", JOB, "0"),
    "ssh": ("ssh", JOB, "0", "--yes", "--", "true"),
}
"""Commands whose answers come from inside pods; `--limit` where the person says how long a command may take."""
AT_PORTS = {
    "doctor": ("doctor", JOB, "0"),
    "ssh": ("ssh", JOB, "0", "--yes", "--", "true"),
    "cp by sftp": ("cp", f"{JOB}:0:/etc/hostname", "{folder}", "--by", "sftp"),
}
"""Commands that speak with what listens at port 2222 of a pod."""
OF_LOGS = {
    "jobs": ("jobs",),
    "why": ("why", JOB),
    "alarms": ("alarms", "--listen", "3"),
    "nccl": ("nccl", JOB),
    "training": ("training", JOB),
}
"""Commands that read logs and end by themselves; `logs` goes on as long as the log does."""
OF_LISTS = {
    "jobs": ("jobs",),
    "pods": ("pods",),
    "nodes": ("nodes",),
    "pools": ("pools",),
    "queues": ("queues",),
    "workloads": ("workloads",),
    "why": ("why", JOB),
    "alarms": ("alarms", "--listen", "3"),
    "facts": ("facts", JOB, "0"),
    "logs": ("logs", JOB, "0"),
    "exec": ("exec", JOB, "0", "--", "true"),
    "doctor": ("doctor", JOB, "0"),
    "preflight": ("preflight",),
    "stop": ("stop", JOB, "--yes", "--dry-run"),
}
"""Commands that begin with what the API server lists."""
COMMANDS = {"exec": IN_PODS, "port": AT_PORTS, "log": OF_LOGS, "list": OF_LISTS, "watch": OF_LISTS}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    seconds: float
    memory: float
    """MiB at most."""
    code: int
    said: str
    """Its last line."""

    def kept(self, seconds: float) -> bool:
        """Whether it ended in time, small, and in words; who did what was asked needs none (`exec -- true`)."""
        worded = bool(self.said) or self.code == 0
        return self.seconds <= seconds and self.memory <= MEMORY and worded and "Traceback" not in self.said


@contextmanager
def lying(folder: Path) -> Iterator[tuple[Path, Callable[[str], None]]]:
    """A practice cluster behind a lying server, each in a process of its own; the kubeconfig, and what sets a flood."""
    practice = PracticeProcess.start()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.lying_api", str(practice.kubeconfig()), str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as server:  # fmt: skip
            assert server.stdin is not None
            assert server.stdout is not None
            stdin, stdout = server.stdin, server.stdout

            def flood(name: str) -> None:
                stdin.write(f"{name}\n")
                stdin.flush()
                assert stdout.readline() == f"{name}\n"

            yield Path(stdout.readline().strip()), flood
            stdin.close()
    finally:
        practice.stop()


def environment(folder: Path) -> dict[str, str]:
    """Of a command that keeps nothing beside that folder."""
    own = {name: str(folder / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "HOME")}
    for each in own.values():
        Path(each).mkdir(exist_ok=True)
    return {**os.environ, **own, "A4_SSH_FOLDER": str(folder / "ssh")}


def ended(argv: tuple[str, ...], kubeconfig: Path, folder: Path) -> Ended:
    """Run a command to its end, or interrupt it."""
    shutil.rmtree(folder / "XDG_STATE_HOME", ignore_errors=True)  # logs that were kept before are read again
    words = [each.format(folder=folder) for each in argv]
    cut = words.index("--") if "--" in words else len(words)
    command = [str(A4), *words[:cut], "--kubeconfig", str(kubeconfig), *words[cut:]]
    with (folder / "output").open("w+b") as output:
        started = time.monotonic()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment(folder), cwd=folder
        )
        over = threading.Timer(PATIENCE, process.send_signal, (signal.SIGINT,))
        over.start()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        over.cancel()
        seconds = time.monotonic() - started
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
        said = [line for line in output.read().decode(errors="replace").splitlines() if line.strip()]
    return Ended(seconds, used.ru_maxrss / 1024, process.returncode, said[-1].strip() if said else "")


def pairs(parts: list[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Flood, command and its arguments."""
    for flood in FLOODS:
        for name, argv in COMMANDS[flood.partition(":")[0]].items():
            if not parts or any(part in f"{name} | {flood}" for part in parts):
                yield flood, name, argv


def main(parts: list[str], say: Callable[[str], None]) -> bool:
    """Print the table; whether every command kept its bounds."""
    broken = 0
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with lying(folder) as (kubeconfig, flood):
            say(f"{'command':20} {'flood':38} {'s':>6} {'MiB':>6} {'code':>4}  last line")
            for name, what, argv in pairs(parts):
                flood(name)
                end = ended(argv, kubeconfig, folder)
                kept = end.kept(SECONDS)
                broken += not kept
                mark = "" if kept else "BROKEN "
                say(f"{what:20} {name:38} {end.seconds:6.1f} {end.memory:6.0f} {end.code:4}  {mark}{end.said[:120]}")
                flood("")
    say(f"{broken} of the commands took over {SECONDS:g} s or {MEMORY:g} MiB, or ended without words")
    return not broken


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:], lambda line: print(line, flush=True)))  # noqa: T201
