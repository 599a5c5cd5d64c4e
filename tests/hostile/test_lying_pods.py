"""What lying pods print, name and fail with reaches no terminal as it is; a new command or lie is a row."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiohttp import web

from console.kube.exec import STDERR, STDOUT
from console.kube.watched_kinds import KINDS
from tests.apiserver import served_in_thread, status
from tests.console.kube.kubelet import Exec, ended
from tests.hostile.payloads import PAYLOADS, RAW
from tests.hostile.test_every_field import API, on_terminal

LINES = [f"{number} {payload} PWNT" for number, payload in enumerate(PAYLOADS.values())]
TEXT = "\n".join([*LINES, *(f"step 1/9 | loss 2.5 | {each}" for each in LINES), f"RuntimeError: {LINES[0]}"]) + "\n"
LOG = "".join(
    f"2026-11-22T12:00:{number % 60:02}.000000000Z {line}\n" for number, line in enumerate(TEXT.splitlines())
)  # fmt: skip
ALL = "".join(PAYLOADS.values()) + " PWNT"


def printing(out: bytes, errors: bytes, code: int) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A container in which every command prints that, and ends so."""

    async def behave(run: Exec) -> None:
        for channel, data in ((STDOUT, out), (STDERR, errors)):
            if data:
                await run.say(channel, data)
        await run.say(3, ended(code))

    async def answer(request: web.Request) -> web.StreamResponse:
        return await Exec(behave)(request)

    return answer


async def running(request: web.Request) -> web.StreamResponse:
    """A container that does what it is asked, on this machine."""

    async def behave(run: Exec) -> None:
        process = await asyncio.create_subprocess_exec(
            *run.parameter("command"), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            stdin=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        out, errors = await process.communicate()
        await run.say(STDOUT, out)
        await run.say(STDERR, errors)
        await run.say(3, ended(process.returncode or 0))

    return await Exec(behave)(request)


async def refused(_: web.Request) -> web.StreamResponse:
    return status(403, f"the pod says {ALL}", reason="Forbidden")


async def broken(_: web.Request) -> web.StreamResponse:
    return web.Response(status=500, text=f"<html>{ALL}\n{ALL}</html>", content_type="text/html")


async def logged(_: web.Request) -> web.StreamResponse:
    return web.Response(body=LOG.encode(errors="surrogateescape"))


DUMP = f'Process 7: {ALL}\nPython v3.12 ({ALL})\n\nThread 7 (active): "{ALL}"\n    {ALL} ({ALL}:3)\n'
TRACED = {
    "pid": 7, "local_rank": 0, "rank": 0, "wchan": ALL, "program": ALL, "command": ALL, "state": "S", "dump": DUMP,
    "error": ALL,
}  # fmt: skip
STACKS = json.dumps(
    {
        "py_spy": f"/bin/{ALL}",
        "processes": [TRACED, {**TRACED, "local_rank": 1, "rank": 1, "dump": ""}],
        "launchers": [TRACED],
        "master": {"address": ALL, "port": 1, "ok": False, "why": ALL},
        "ras": {"text": ALL, "why": ALL},
        "rdma": [{"name": ALL, "state": ALL, "rate": ALL}],
        "gdb": ALL,
    }
)
OWN = re.compile(r"\r\x1b\[K|\x1b\[(?:0|1|1;31)m")
"""What we draw ourselves: a line that is written over, and headings."""
LIES = {
    "prints it and fails": (logged, printing(TEXT.encode(), TEXT.encode(), 1)),
    "prints it and all is well": (logged, printing(TEXT.encode(), b"", 0)),
    "prints stacks": (logged, printing(STACKS.encode() + b"\n", ALL.encode(), 0)),
    "refuses with it": (refused, refused),
    "breaks with it": (broken, broken),
}
SILENT = "breaks with it"
"""A body of HTML is not repeated at all."""


@contextmanager
def lying(lie: str, folder: Path) -> Iterator[Path]:
    """The kubeconfig of a server whose job `train` has such pods, in a thread of its own."""
    log, execute = LIES.get(lie, (logged, running))
    with served_in_thread() as server:
        for kind in KINDS:
            for path in sorted(API.glob(f"{kind.plural}.json")):
                for each in json.loads(path.read_text())["items"]:
                    place = each["metadata"].get("namespace", ""), each["metadata"]["name"]
                    server.objects[kind.path(kind.versions[0])][place] = each
                    if kind.plural == "pods":
                        at = f"/api/v1/namespaces/{place[0]}/pods/{place[1]}"
                        server.handlers[f"{at}/log"], server.handlers[f"{at}/exec"] = log, execute
        yield server.kubeconfig(folder)


COMMANDS = {
    "logs": ("logs", "train", "0"),
    "logs --all": ("logs", "train", "--all"),
    "logs --all --consensus": ("logs", "train", "--all", "--consensus"),
    "logs --previous": ("logs", "train", "0", "--previous"),
    "why": ("why", "train"),
    "jobs": ("jobs",),
    "training": ("training", "train"),
    "nccl": ("nccl", "train"),
    "ls": ("ls", "train:0:/"),
    "facts": ("facts", "train", "0"),
    "exec --all": ("exec", "train", "--all", "--", "true"),
    "hang": ("hang", "train"),
    "slow": ("slow", "train", "--seconds", "1"),
    "gpus": ("gpus", "train"),
    "doctor": ("doctor", "train", "0"),
}


@pytest.mark.slow(reason="every page of a job whose pods lie, on a practice cluster")
@pytest.mark.parametrize("lie", LIES)
def test_what_a_pod_says_is_shown_and_never_obeyed(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    told = 0
    with lying(lie, tmp_path) as kubeconfig:
        for command, words in COMMANDS.items():
            at = words.index("--") if "--" in words else len(words)
            text = on_terminal([*words[:at], "--kubeconfig", str(kubeconfig), *words[at:]], monkeypatch)
            text = OWN.sub("", text)
            assert text, command
            assert not RAW.search(text), command
            told += "PWNT" in text
    assert told >= 5 or lie == SILENT, "the lies were heard"


def test_names_in_a_folder_are_shown_and_never_obeyed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "folder"
    folder.mkdir()
    names = {payload.replace("/", "") for payload in PAYLOADS.values()}
    for name in names:
        (folder / f"{name[:40]}PWNT").write_text("x")
    with lying("does what it is asked", tmp_path) as kubeconfig:
        text = on_terminal(["ls", f"train:0:{folder}", "--kubeconfig", str(kubeconfig)], monkeypatch)
        gone = on_terminal(
            ["ls", f"train:0:{folder}/{ALL.replace(chr(0), '')}", "--kubeconfig", str(kubeconfig)], monkeypatch
        )
    assert text.count("PWNT") >= len(PAYLOADS) // 2
    assert "PWNT" in gone
    for each in (text, gone):
        assert not RAW.search(each)
