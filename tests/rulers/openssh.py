"""Runs OpenSSH's own regression scripts with `a4 proxy` as the ProxyCommand of every connection.

They come from Debian's package openssh-tests. A pod of a practice cluster leads to the server of the script: the sshd
that it started, and for ssh_proxy, their configuration of connections without one, to one made for the connection.
"""

import asyncio
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from tests.contract.client import Api
from tests.contract.cluster import CORE, eventually, practice_cluster
from tests.rulers.go_cases import CASES, Unavailable

PACKAGE = "openssh-tests"
SCRIPTS = (
    "connect", "transfer", "exit-status", "exit-status-signal", "stderr-data", "stderr-after-eof", "broken-pipe",
    "yes-head", "multiplex", "forwarding", "forward-control", "dynamic-forward", "sftp-cmds", "sftp-batch",
    "sftp-badcmds", "sftp-glob", "sftp-perm", "sftp-uri", "scp", "scp3", "scp-uri", "rekey", "sftp",
)  # fmt: skip
PORT, LIMIT = 4242, 5400.0  # of the scripts' own sshd; and seconds for one script: sftp writes 5 bytes at a time
_MADE = 2222  # the port of the pod behind which a server is made for each connection
_STARTED = (*range(3300, 3340), *range(PORT, PORT + 20))  # ports on which the scripts listen and to which they connect
# The scripts of sftp and scp start a server beside the client (-D), without a connection: here it is at its far end.
_OVER = """#!/bin/sh
over= count=$#
while [ $count -gt 0 ]; do
  each=$1; shift; count=$((count - 1))
  if [ "$each" = -D ]; then over=$1; shift; count=$((count - 1)); else set -- "$@" "$each"; fi
done
case "PROGRAM $over" in
  *" ") exec PROGRAM "$@" ;;
  sftp*) exec sftp -S ssh -F OBJECTS/ssh_proxy -s "$over" "$@" somehost ;;
  scp*) exec scp -S ssh -F OBJECTS/ssh_proxy "$@" ;;
esac
"""


def version() -> str:
    shown = subprocess.run(["apt-cache", "policy", PACKAGE], capture_output=True, text=True).stdout
    return next((line.split()[-1] for line in shown.splitlines() if "Candidate:" in line), "unknown")


def cases() -> list[dict[str, Any]]:
    """What became of each script; Unavailable if the package cannot be had."""
    scripts = _scripts()
    Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # compiled into sshd: a boot makes it, and a container lacks it
    with tempfile.TemporaryDirectory(prefix="a4-openssh-") as place, practice_cluster(Path(place)) as cluster:
        return asyncio.run(_play(scripts, Path(place), cluster.kubeconfig))


def _scripts() -> Path:
    folder = CASES / f"{PACKAGE}-{version()}"
    scripts = folder / "usr" / "lib" / "openssh" / "regress"
    if not scripts.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for command in (["apt-get", "download", PACKAGE], ["sh", "-c", "dpkg-deb -x *.deb ."]):
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if done.returncode:
                shutil.rmtree(folder)
                raise Unavailable(f"Debian's package {PACKAGE} cannot be had ({done.stderr.strip()[-200:]})")
    return scripts


async def _play(scripts: Path, place: Path, kubeconfig: Path) -> list[dict[str, Any]]:
    objects = place / "regress"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ours, theirs = socket.socketpair()
        command = ["/usr/sbin/sshd", "-i", "-f", str(objects / "sshd_proxy"), "-E", str(objects / "sshd.log")]
        with closing(theirs):
            end = theirs.fileno()
            server = await asyncio.create_subprocess_exec(*command, stdin=end, stdout=end)
        streams = await asyncio.open_connection(sock=ours)
        with suppress(asyncio.CancelledError):  # the last script is over
            await asyncio.gather(_copy(reader, streams[1]), _copy(streams[0], writer))
            await server.wait()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    ports = {_MADE: listener.sockets[0].getsockname()[1]} | {each: each for each in _STARTED}
    async with listener, Api.open(kubeconfig) as api:
        pods = f"{CORE}/namespaces/default/pods"
        notes = {f"a4-lab/port-{port}": str(at) for port, at in ports.items()}
        containers = [{"name": "main", "image": "busybox", "command": ["sleep", "100000"]}]
        pod = {"metadata": {"name": "far", "annotations": notes}, "spec": {"containers": containers}}
        assert (await api.create(pods, pod)).status == 201

        async def runs() -> bool:
            return bool((await api.get(f"{pods}/far")).made["status"].get("phase") == "Running")

        await eventually(runs, "the pod runs")
        a4, begun, refused = place / "a4", place / "begun", place / "refused"
        program = f"{Path(sys.executable).with_name('a4')} proxy --kubeconfig {kubeconfig}"
        a4.write_text(f'#!/bin/sh\necho >>{begun}\nexec {program} "$@" pod/far 2>>{refused}\n')
        a4.chmod(0o700)
        over = f"ProxyCommand {a4} --port %p"
        made = over.replace("%p", str(_MADE))
        found = []
        for name in SCRIPTS:
            begun.write_text("")
            refused.write_text("")
            why = ""
            fault = await _run(scripts, objects, name, over, made)
            if not fault and not begun.read_text():
                fault = why = "it connects nowhere"
            elif fault and await _run(scripts, objects, name):
                fault = why = f"fails on this machine without a4 too: {fault}"
            elif fault:
                fault = "; ".join((fault, *refused.read_text().splitlines()[-1:]))
            sys.stderr.write(f"rulers: OpenSSH {name}: {fault or 'ok'}\n")
            found.append({"suite": "regress", "name": name, "case": {}, "fault": fault, "why": why})
        return found


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
        writer.write_eof()


async def _run(scripts: Path, objects: Path, name: str, option: str = "", of_proxy: str = "") -> str:
    """What a script complains of; empty if it ended well. With options for ssh_config and for ssh_proxy."""
    shutil.rmtree(objects, ignore_errors=True)
    shutil.copytree(scripts, objects)
    if of_proxy:
        frame = objects / "test-exec.sh"
        text = re.sub(r"\tcat \$OBJ/ssh_config\n\techo proxycommand .*", "\tgrep -v ^ProxyCommand $OBJ/ssh_config\n"
                      f"\techo '{of_proxy}'", frame.read_text())  # fmt: skip
        assert of_proxy in text, "test-exec.sh makes ssh_proxy in another way"
        frame.write_text(text)
        copies = objects / "scp-ssh-wrapper.sh"
        copies.write_text(
            copies.read_text().replace('exec $SCP "$@"', f'exec ssh -F {objects}/ssh_proxy somehost "$arg"')
        )
        for program in ("sftp", "scp"):
            wrapper = objects / f"{program}-over"
            wrapper.write_text(_OVER.replace("OBJECTS", str(objects)).replace("PROGRAM", program))
            wrapper.chmod(0o700)
    settings = {
        "TEST_SHELL": "sh", "TEST_SSH_SSH": "ssh", "TEST_SSH_SFTPSERVER": "/usr/lib/openssh/sftp-server",
        "TEST_SSH_UNSAFE_PERMISSIONS": "1", "BUILDDIR": str(objects), "TEST_SSH_SSH_CONFOPTS": option,
        "TEST_SSH_QUIET": "yes",
        **({"TEST_SSH_SFTP": f"{objects}/sftp-over", "TEST_SSH_SCP": f"{objects}/scp-over"} if of_proxy else {}),
    }  # fmt: skip
    process = await asyncio.create_subprocess_exec(
        "sh", str(objects / "test-exec.sh"), str(objects), str(objects / f"{name}.sh"),
        env=os.environ | settings, cwd=objects, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), LIMIT)
    except TimeoutError:
        process.kill()
        return f"it did not end within {LIMIT:.0f} s"
    lines = [line for line in out.decode(errors="replace").splitlines() if not line.startswith(("ok ", "SKIPPED"))]
    return "" if process.returncode == 0 else "; ".join(lines[-3:])[-300:] or f"exit code {process.returncode}"
