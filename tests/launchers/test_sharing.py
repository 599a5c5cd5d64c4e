"""Locks and flags of a workspace, and what jobs load into it; jobs beside each other are rehearsed."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from console import assets
from tests.launchers.conftest import Launch
from tests.launchers.sandbox import LIMIT, Sandbox

PAUSE = threading.Event()


def script(pod: Sandbox, text: str) -> str:
    """A recipe of the test's own."""
    file = pod.root / "recipe.sh"
    folder = assets.launchers_folder()
    file.write_text(
        f"set -euo pipefail\nsource {folder}/steps.sh\nsource {folder}/sharing.sh\ntrap 'step_end $?' EXIT\n{text}"
    )
    return str(file)


@pytest.mark.slow(reason="the dead are noticed by their silence")
def test_a_holder_that_died_is_noticed_and_one_that_lives_is_not(launch: Launch) -> None:
    holder, waiter = launch("qwen3-download"), launch("qwen3-download", 1)
    waiter.environment |= {
        "JOB_ID": "bob", "JOB_IDENTIFIER": "bob-2", "DOMAIN_NAME": "bob.team.svc.cluster.local",
        "JOB_COMPLETION_INDEX": "0", "A4_DEAD_SECONDS": "2",
    }  # fmt: skip
    with holder.start(script(holder, "lock $share/x work\necho held\nsleep 30\n")) as living:
        assert living.stdout is not None
        assert living.stdout.readline() == "held\n"
        with waiter.start(script(waiter, "lock $share/x 'it works there'\necho mine\nunlock\n")) as waiting:
            assert waiting.stdout is not None
            assert waiting.stdout.readline() == "waiting for team/anna: it works there\n"
            PAUSE.wait(3)
            assert waiting.poll() is None, "its count goes on"
            living.kill()
            living.wait()
            assert waiting.communicate(timeout=LIMIT)[0] == (
                "team/anna is dead: its lock of /mnt/x is taken over\nmine\n"
            )
    assert not list((holder.root / "mnt").glob("x.a4-lock*"))


def test_a_lock_that_cannot_be_made_is_named(launch: Launch) -> None:
    pod = launch("qwen3-download")
    lines = pod.run(script(pod, "touch $share/file\nlock $share/file/x work\n"), code=1)
    assert "file" in lines[-1]


@pytest.mark.slow(reason="waits until discovery gives up")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mkdir -p $flags; echo 7 >$code_file; read_post x\n",
            "index 0 has ended with exit code 7 before it came here",
        ),
        ("mkdir -p $flags; echo 3 >$flags/failed; read_post x\n", "index 0 has ended with exit code 3 before"),
        ("A4_DISCOVERY_SECONDS=1; read_post x\n", "is it the same storage in all pods?"),
    ],
)
def test_nobody_waits_for_an_index_0_that_has_ended_or_is_elsewhere(launch: Launch, text: str, message: str) -> None:
    worker = launch("qwen3-to-mcore", 1, gpus=16)
    lines = worker.run(script(worker, f"step sync\n{text}"), code=1)
    assert message in lines[-2]


class Shop(http.server.BaseHTTPRequestHandler):
    """Files of 50,000 bytes, each with a fault."""

    answers: dict[str, int]
    protocol_version = "HTTP/1.1"
    data = bytes(range(256)) * 200

    def do_GET(self) -> None:
        name = self.path.lstrip("/")
        tries = self.answers[name] = self.answers.get(name, 0) + 1
        begin = int(self.headers.get("Range", "bytes=0-")[6:].rstrip("-"))
        if name == "busy" and tries < 3:
            self.reply(503, b"")
        elif name == "page":
            self.reply(200, b"<!DOCTYPE html><title>Please log in</title>", kind="text/html")
        elif name == "plain-page":
            self.reply(200, b"\n<html>Please log in</html>", kind="application/octet-stream")
        elif begin >= len(self.data):
            self.reply(416, b"<html>", kind="text/html", range_=f"bytes */{len(self.data)}")
        elif begin:
            self.reply(206, self.data[begin:], range_=f"bytes {begin}-{len(self.data) - 1}/{len(self.data)}")
        elif name == "broken" and tries < 3:
            self.reply(200, self.data[:30000], size=len(self.data))
        else:
            self.reply(200, self.data)

    def reply(
        self, code: int, body: bytes, kind: str = "application/octet-stream", size: int = -1, range_: str = ""
    ) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if size < 0 else size))
        if range_:
            self.send_header("Content-Range", range_)
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[str]:
    Shop.answers = {}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.programs("wget")
@pytest.mark.parametrize(
    ("name", "there", "code", "message"),
    [
        ("whole", 0, 0, ""),
        ("whole", 50000 + 1200, 0, ""),
        ("whole", 20000, 0, ""),
        ("whole", 60000, 0, "has 60000 bytes, and 51200 on the server: it was deleted"),
        ("busy", 0, 0, ""),
        ("broken", 0, 0, ""),
        ("page", 0, 65, "answers with a web page, not with data"),
        ("plain-page", 0, 65, "answers with a web page, not with data"),
    ],
)
def test_what_is_loaded_is_the_servers_file(
    launch: Launch, shop: str, name: str, there: int, code: int, message: str
) -> None:
    pod = launch("qwen3-download")
    (pod.root / "bin/wget").unlink()
    (pod.root / "bin/wget").symlink_to("/usr/bin/wget")
    file = pod.root / "mnt" / name
    if there:
        file.write_bytes((Shop.data * 2)[:there])
    lines = pod.run(script(pod, f"step download\nfetch $share {shop}/{name}\n"), code=code)
    assert message in "\n".join(lines)
    assert not file.exists() if code else file.read_bytes() == Shop.data
