"""Which of the job's environment a shell in a pod has, by each way that leads into one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.rehearsal.pods import MINE, TOKEN, Pod

SHOW = "env -0 | tr '\\n' '\\037'"
WANTED = {
    "NCCL_NET": "gIB", "NCCL_IB_TC": "52", "NCCL_SOCKET_IFNAME": "eth0,eth1", "HF_TOKEN": TOKEN,
    "MASTER_ADDR": "anna-workload-0-0.anna.team.svc.cluster.local", "MASTER_PORT": "6002",
    "LD_LIBRARY_PATH": "/usr/local/gib/lib64:/usr/local/nvidia/lib64",
}  # fmt: skip
"""What the recipe's programs have, and a person's in the same pod need."""


def look_into(pods: Iterable[Pod], folder: Path) -> list[str]:
    """Go into every pod by each way, and return what is missing there."""
    found = []
    for pod in pods:
        for way, text in ways(pod, folder):
            seen = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
            for name, value in (WANTED | (MINE if "command" not in way else {})).items():
                if seen.get(name, "").replace("\x1f", "\n") != value:
                    found.append(f"{way} in pod {pod.index}: {name} is {seen.get(name, 'not set')!r}")
    return found


def ways(pod: Pod, folder: Path) -> Iterable[tuple[str, str]]:
    """Each way into a pod, and the environment found there."""
    yield "bash", pod.enter("bash", "-ic", SHOW).stdout
    yield "login shell", pod.enter("bash", "-lc", SHOW).stdout
    key = folder / "person"
    to = [
        "-F", "none", "-i", str(key), "-o", "BatchMode=yes", "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR",
        "-o", f"UserKnownHostsFile={folder / 'known_hosts'}", "-o", "StrictHostKeyChecking=no",
    ]  # fmt: skip
    there = f"root@10.77.0.{pod.number + 2}"
    yield "ssh command", ssh([*to, "-p", "2222", there, SHOW])
    yield "ssh shell", ssh([*to, "-p", "2222", there, "bash -s"], f"{SHOW}\n")
    yield "ssh login shell", ssh([*to, "-p", "2222", there, "bash -ls"], f"{SHOW}\n")
    if shutil.which("tmux"):
        pod.enter("tmux", "new-session", "-d", "-s", "person")
        pod.enter(
            "tmux",
            "send-keys",
            "-t",
            "person",
            f"umask 077; {SHOW} > /tmp/person.part; mv /tmp/person.part /tmp/person",
            "Enter",
        )
        yield "tmux", pod.enter("bash", "-c", "until [[ -e /tmp/person ]]; do sleep 0.1; done; cat /tmp/person").stdout


def ssh(words: list[str], typed: str = "") -> str:
    """What ssh brings from the pod."""
    done = subprocess.run(["ssh", *words], input=typed, capture_output=True, text=True, check=False, timeout=20)
    return done.stdout
