"""Options of the ssh config, and programs on the ports of tunnels, that break connections to pods."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from console.attach.ssh.ssh_folder import SshPaths

_HARMFUL_OPTIONS = {  # what an option does to connections to a pod
    "remotecommand": "is run in the pod in place of what is asked for",
    "requesttty": "opens a terminal where an editor or a copy sends its data",
    "controlpath": "lets connections to several pods share one",
}
_TCP_LISTEN_STATE = "0A"  # a socket's state in /proc/net/tcp


def find_foreign_options(ssh_paths: SshPaths, host: str) -> Iterator[str]:
    """Yield a sentence for each option in the person's ssh config that breaks connections to a4's hosts."""
    argv = ["ssh", "-G", *([] if ssh_paths.is_default else ["-F", str(ssh_paths.user_config)]), host]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=True, timeout=3)
    for line in done.stdout.splitlines():
        option, _, value = line.partition(" ")
        ours = value in {"none", "auto", "no", "false"} or str(ssh_paths.own) in value
        if option in _HARMFUL_OPTIONS and not ours:
            yield f"{option} {value[:60]} of your ssh config {_HARMFUL_OPTIONS[option]}."
        elif option.endswith("forward") and option[:5] in {"local", "remot", "dynam"}:
            yield f"{option} {value[:60]} of your ssh config holds for pods too: the second connection finds it taken."


def find_listeners(ports: Collection[int], own_ports: Collection[int]) -> dict[int, str]:
    """By port, the other program (no process of `own_ports`) that listens on it on this machine. Raises OSError."""
    sockets: dict[str, int] = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == _TCP_LISTEN_STATE and port in ports:
                sockets[f"socket:[{fields[9]}]"] = port
    found = dict.fromkeys(sockets, "a program of another user")
    for process in Path("/proc").glob("[0-9]*") if sockets else ():
        with suppress(OSError):  # it has ended, or is another user's
            for each in (process / "fd").iterdir():
                with suppress(OSError):  # it is closed
                    link = str(each.readlink())
                    name = f"{(process / 'comm').read_text().strip()} (process {process.name})" if link in found else ""
                    found |= {link: "" if int(process.name) in own_ports else name} if name else {}
    return {sockets[link]: name for link, name in found.items() if name}
