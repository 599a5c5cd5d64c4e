"""Standard input and output of `a4 proxy` that are files, which an event loop cannot watch."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
SCRIPT = """
import asyncio
from console.attach.tunnel.relay import relay_stdio


class Echo:
    # Sends back what it gets, in capitals, and ends after `size` bytes.
    closed = False

    def __init__(self, size):
        self.left = size

    def attach(self, receiver):
        self.receiver = receiver

    def write(self, data):
        self.receiver.data(data.upper())
        self.left -= len(data)
        if not self.left:
            self.receiver.end("")

    def pause(self):
        pass

    resume = ping = pause

    def close(self):
        self.closed = True


asyncio.run(relay_stdio(Echo(3_000_000)))
"""


def test_files_are_copied_whole(tmp_path: Path) -> None:
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(b"abcde\n" * 500_000)
    with sent.open("rb") as stdin, received.open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], cwd=ROOT, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=60,
            check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert received.read_bytes() == b"ABCDE\n" * 500_000
