"""A script that runs inside a pod, read from standard input: it runs one command in many pods of its job over ssh.

The line of input after the script is JSON: `pods` (number, name and address of each; no address: the pod in which the
script runs), `argv`, `input` (number of bytes that follow, the standard input of each command), `limit` (seconds for
each) and `most` (bytes that each may print). The output is ANSWER_HEAD, then frames: a line of three numbers (pod,
channel, length), then so many bytes. Channel 1 is output, 2 errors, 0 the end: an exit code, a blank, and a reason if
the command was stopped.

The script needs the keys that the launchers of the chart put into every pod. It stands alone, for Python 3.7 and newer.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import signal
import sys
from typing import Any

MAX_CONCURRENT_PODS = 64
"""Number of pods that have an ssh connection at the same time."""
READ_BYTES = 1 << 15
ANSWER_HEAD = b"a4-gateway\n"
EXIT_NO_SSH, EXIT_TIMED_OUT = 44, 124
KILL_GRACE_SECONDS = 2.0
"""Seconds that a killed command has to close its output; if it does not, a process of it still runs."""
SSH_CONNECT_TIMEOUT = "5"
"""ssh's ConnectTimeout, in seconds."""
KEY_EXCHANGE = "curve25519-sha256,ecdh-sha2-nistp256"
"""ssh's KexAlgorithms: the default of newer OpenSSH takes this pod six times as long, for hundreds of connections."""


def ssh_folder() -> str:
    """The folder with the SSH key that all pods of a release accept, put there by launchers; empty if none."""
    folders = [os.path.expanduser("~/.ssh")]
    if os.path.exists("/a4/ssh/id_pods"):  # only in pods of the chart, whatever home their image names
        folders.append("/root/.ssh")
    return next((each for each in folders if os.access(each + "/id_pods", os.R_OK)), "")


def print_frame(number: int, channel: int, data: bytes) -> None:
    sys.stdout.buffer.write(b"%d %d %d\n" % (number, channel, len(data)) + data)
    sys.stdout.buffer.flush()


def kill_process(process: Any) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # it has ended by itself


async def pass_on(process: Any, stream: asyncio.StreamReader, number: int, channel: int, bytes_left: list[int]) -> None:
    """Print a program's output as frames; kill the program once its streams exceed their common limit `bytes_left`."""
    while True:
        piece = await stream.read(READ_BYTES)
        if not piece:
            return
        bytes_left[0] -= len(piece)
        if bytes_left[0] >= 0:
            print_frame(number, channel, piece)
        else:
            kill_process(process)


async def read_rest(process: Any, stream: asyncio.StreamReader) -> None:
    """Read and drop the rest of a stream: asyncio reports the end of a process only after its streams have ended."""
    while await stream.read(READ_BYTES):
        kill_process(process)


async def feed_stdin(process: Any, stdin_data: bytes) -> None:
    try:
        process.stdin.write(stdin_data)
        await process.stdin.drain()
        process.stdin.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # it has ended without reading all of it


async def run_in_pod(number: int, argv: list[str], data: bytes, limit_seconds: float, max_bytes: int) -> None:
    pipe, why, left = asyncio.subprocess.PIPE, "", [max_bytes]
    process = await asyncio.create_subprocess_exec(*argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    assert process.stdout is not None and process.stderr is not None
    streams = (process.stdout, 1), (process.stderr, 2)
    passing = [pass_on(process, stream, number, channel, left) for stream, channel in streams]
    try:
        await asyncio.wait_for(asyncio.gather(*passing, feed_stdin(process, data)), limit_seconds)
        code = await process.wait()
    except asyncio.TimeoutError:
        code, why = EXIT_TIMED_OUT, "it did not answer within %g s" % limit_seconds
        kill_process(process)
        rest = [read_rest(process, stream) for stream, _ in streams]
        try:
            await asyncio.wait_for(asyncio.gather(*rest, process.wait()), KILL_GRACE_SECONDS)
        except asyncio.TimeoutError:
            why += "; a process of it still runs"
    if left[0] < 0:
        code, why = 1, "it printed too much"
    print_frame(number, 0, b"%d %s" % (code if code >= 0 else 128 - code, why.encode()))


async def run_in_pods(request_fields: dict[str, Any], data: bytes, key_folder: str) -> None:
    room = asyncio.Semaphore(MAX_CONCURRENT_PODS)
    over = [
        "ssh",
        "-F",
        key_folder + "/config",
        "-T",
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=" + SSH_CONNECT_TIMEOUT,
    ]
    over += ["-o", "KexAlgorithms=" + KEY_EXCHANGE]
    command = " ".join(map(shlex.quote, request_fields["argv"]))

    async def run_in_turn(number: int, name: str, address: str) -> None:
        argv = [*over, "-o", "HostName=" + address, "--", name, command] if address else request_fields["argv"]
        async with room:
            try:
                await run_in_pod(number, argv, data, request_fields["limit"], request_fields["most"])
            except OSError as error:
                print_frame(number, 0, b"126 " + str(error).encode())

    await asyncio.gather(*[run_in_turn(*pod) for pod in request_fields["pods"]])


def main() -> None:
    folder = ssh_folder()
    if not folder or not shutil.which("ssh"):
        sys.stderr.write("there is no ssh, or no key of the release, in this pod\n")
        sys.exit(EXIT_NO_SSH)
    asked = json.loads(sys.stdin.buffer.readline())
    data = sys.stdin.buffer.read(asked["input"])
    sys.stdout.buffer.write(ANSWER_HEAD)
    sys.stdout.buffer.flush()
    asyncio.run(run_in_pods(asked, data, folder))


if __name__ == "__main__":
    main()
