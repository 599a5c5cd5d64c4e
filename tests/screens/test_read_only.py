"""--read-only: no command line and no key sends what changes the cluster or the project."""

import json
import random
import string
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from textual.pilot import Pilot

from console.connection_settings import Settings
from console.session import Session
from practice.cluster import PracticeCluster
from practice.objects.resources import JOBSETS, NODES, PODS
from screens.__main__ import main
from screens.app import ConsoleApp
from screens.dialogs.question import Confirm
from tests.apiserver import in_thread
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.press import STYLES, press, screen_text, until

Watched = tuple[PracticeCluster, Callable[[Any], Any], list[tuple[bool, str]]]


REVIEWS = ("/selfsubjectaccessreviews", "/selfsubjectrulesreviews", "/selfsubjectreviews")
LOOKS = ("Get", "List", "Query", "Search", "Test", "Read", "BatchGet", "Check")
"""How the methods of Google's services begin that change nothing."""
REFUSED = (
    "launch nccl-all-reduce", "launch nccl-all-reduce --no-preflight --name n-1", "launch nccl-all-reduce --wait",
    "launch ddp-smoke --set gpus=16", "launch interactive --queue none", "launch ddp-smoke --queue research",
    "stop nccl-0412", "stop nccl-0412 --yes", "stop llama-70b nccl-0412 -y", "stop -n team-b rag-eval --yes",
    "stop --orphaned --yes", "stop --orphaned --data -A -y", "stop nccl-0412 --yes --json",
    "exec llama-70b 0 -- hostname", "exec llama-70b --all -- hostname", "exec llama-70b --pods 0-3 -- rm -rf /",
    "exec llama-70b 0 --json -- id", "exec -i llama-70b 0 -- cat", "exec -n team-b rag-eval 0 -- true",
    "shell llama-70b", "shell llama-70b 3 --no-tmux", "shell -n team-b rag-eval 0",
    "rm llama-70b:0:/tmp/x -y", "rm llama-70b:0:/ --yes", "rm llama-70b:1:a --json -y",
    "cp README llama-70b:0:/tmp/", "cp README llama-70b:all:/tmp/", "cp README nccl-0412:0:/tmp/b",
    "ssh llama-70b 0 --yes", "ssh llama-70b 0 --yes -- id", "ssh nccl-0412 1 -y --json",
    "code llama-70b 0 --yes", "code llama-70b 0 --editor zed -y", "code nccl-0412 --json -y",
    "hang llama-70b", "hang llama-70b --install", "hang llama-70b --install --all",
    "nccl-quick llama-70b", "nccl-quick llama-70b 1 --gpus 2",
    "resize a4-flex 2 --yes", "resize a4-flex --limits 0:4 --yes", "resize system 0 --yes --json",
    "resize a4-flex 1 --yes --wait",
    "report NODE --yes", "report NODE --for XID --yes", "report NODE --yes --json",
    "images create mine", "images create mine --json",
    "build testbed", "build testbed --wait", "build testbed --set _IMAGE_TAG=x", "build --file FOLDER",
    "build-cancel BUILD --yes", "build-cancel BUILD -y --json",
    "store-logs llama-70b gs://practice-a4/logs", "store-logs llama-70b gs://practice-a4/logs --replace",
    "clusters enable practice-new --yes", "clusters enable practice-new -y --json",
    "preflight nccl-all-reduce --queue mine --fix localqueue --yes", "preflight --fix P21 --yes",
    "preflight --fix P21 -y --json",
    "preflight nccl-all-reduce --registry us-central1-docker.pkg.dev/practice/mine --fix P31 -y",
)  # fmt: skip
"""Each is told that it is not done, with exit code 3."""
LOOKED = (
    "pools", "nodes", "queues", "workloads", "jobs -A", "pods -A", "releases",
    "history", "logs llama-70b 0 --tail 5", "nccl nccl-0412", "training llama-70b",
    "facts llama-70b 0", "ls llama-70b:0:/", "cp llama-70b:0:/etc/hostname .", "doctor llama-70b 0", "gpus nccl-0412",
    "stop nccl-0412 --dry-run", "launch nccl-all-reduce --dry-run", "buckets", "builds", "images",
    "nodepools", "operations", "clusters", "preflight nccl-all-reduce",
)  # fmt: skip
"""Each does what it does for everybody."""


def changes(request: web.Request) -> bool:
    if request.method in {"GET", "HEAD"} or request.path.endswith(REVIEWS):
        return False
    return request.query.get("dryRun") != "All"


def changes_google(method: str, path: str) -> bool:
    if method == "gRPC":
        return not path.rpartition("/")[2].startswith(LOOKS)
    return method not in {"GET", "HEAD"}


@contextmanager
def practised() -> Iterator[tuple[PracticeCluster, Callable[[Any], Any]]]:
    """A practice cluster in a thread of its own, and what does work there."""
    cluster = PracticeCluster()
    with in_thread() as do:
        do(cluster.start())
        try:
            yield cluster, do
        finally:
            do(cluster.stop())


@contextmanager
def watched() -> Iterator[Watched]:
    """Such a cluster, and each request that comes to it, with whether it changes something."""
    seen: list[tuple[bool, str]] = []
    with practised() as (cluster, do):
        do(cluster.open_google())
        assert cluster.google is not None
        cluster.server.listeners.append(lambda each: seen.append((changes(each), f"{each.method} {each.path_qs}")))
        cluster.google.world.listeners.append(lambda how, what: seen.append((changes_google(how, what), what)))
        yield cluster, do, seen


@pytest.fixture(scope="module")
def shared() -> Iterator[Watched]:
    with watched() as made:
        yield made


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written to this machine lies in the test's folder."""
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR", "A4_SSH_FOLDER"):
        (tmp_path / name).mkdir(mode=0o700)
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README").write_text("mine")
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")


@pytest.mark.slow(reason="hundreds of keys or command lines on a whole practice cluster")
def test_no_command_line_changes_anything(shared: Watched, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cluster, do, seen = shared
    assert len(set(REFUSED)) == len(REFUSED)
    assert len(REFUSED) + len(LOOKED) >= 72
    ended: dict[str, int] = {}

    def run(words: list[str]) -> int:
        return main([words[0], "--kubeconfig", str(cluster.kubeconfig), *words[1:]])

    async def lose_job() -> str:
        cluster.storage.remove(JOBSETS, "default", "left")
        names = [str(node["metadata"]["name"]) for node in cluster.storage.list(NODES)]
        return next(name for name in names if "a4" in name)

    for name in ("mine", "left"):
        assert run(["launch", "interactive", "--name", name, "--queue", "none", "--no-preflight"]) == 0
    node = do(lose_job())
    capfd.readouterr()
    assert run(["build", "testbed", "--json"]) == 0
    build = str(json.loads(capfd.readouterr().out)["id"])
    assert sum(writes for writes, _ in seen) > 4  # what writes is noticed
    seen.clear()
    for line in (*REFUSED, *LOOKED):
        named = {"NODE": node, "BUILD": build, "FOLDER": str(tmp_path)}
        first, *words = (named.get(each, each) for each in line.split())
        ended[line] = run([first, "--read-only", *words])
        told = capfd.readouterr()
        if ended[line] == 3 and "read-only" not in told.err:
            ended[line] = -3
    assert [what for writes, what in seen if writes] == []
    assert {line: code for line, code in ended.items() if code != 3 and line in REFUSED} == {}
    assert {line: code for line, code in ended.items() if code and line in LOOKED} == {"doctor llama-70b 0": 1}


KEYS = (
    *(string.ascii_letters.replace("q", "") * 2 + string.digits * 2 + "?:/.,-+[]"),
    *("enter", "escape", "tab", "shift+tab", "space", "backspace", "up", "down", "left", "right") * 4,
    *("home", "end", "pageup", "pagedown", "ctrl+s", "ctrl+r", "ctrl+d", "ctrl+o", "delete"),
    *(f"f{number}" for number in range(1, 13)),
    *"é漢\u200d\u202e🙂\u0301\U0001f9d1ａ",
)
"""What a person may press, but for what quits."""
BACK = ("escape", "y") * 3
"""Back to a list: a form that was changed asks before it closes."""
AIMED = tuple(
    (*BACK, page, *way, key, "y")
    for page, keys in {"1": "KUxRLF", "3": "xsUnvQ", "4": "xU", "6": "n", "I": "bxme", "P": "f"}.items()
    for way in ((), ("enter",), ("down", "enter"), ("enter", "enter"), ("enter", "down", "enter"))
    for key in keys
)
"""A page, an object on it, a key that changes something, and the consent."""
SESSIONS, PRESSED = 3, 500


def pressed(chance: random.Random) -> Iterator[str]:
    """Keys without end, on each page in turn: some by chance, some that are meant to change something."""
    for page in cycle("1234567IP"):
        yield from (*BACK, page)
        for _ in range(6):
            yield from chance.choice(AIMED) if chance.random() < 0.1 else chance.choices(KEYS, k=6)


def lie(draft: Any) -> None:
    """Give an object hostile texts."""
    hostile = "".join(PAYLOADS.values())
    draft["metadata"].setdefault("annotations", {})["note"] = hostile
    for condition in draft.get("status", {}).get("conditions", ()):
        condition["message"] = hostile


class Staying(ConsoleApp):
    CSS_PATH = STYLES

    async def action_quit(self) -> None:
        """No key quits."""


@asynccontextmanager
async def console(
    shared: Watched, monkeypatch: pytest.MonkeyPatch, *, read_only: bool
) -> AsyncIterator[tuple[ConsoleApp, Pilot[Any], list[tuple[bool, str]]]]:
    """The console on a cluster whose texts are hostile, and what it sends."""
    cluster, do, seen = shared
    seen.clear()
    no_tunnel = Path.home() / "no-tunnel"
    no_tunnel.write_text("""#!/bin/sh\necho '{"error": "no tunnel outlives this test"}'\n""")
    no_tunnel.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(no_tunnel))

    opened: list[Session] = []

    async def lie_everywhere() -> None:
        for kind in (PODS, JOBSETS, NODES):
            for each in cluster.storage.list(kind):
                cluster.storage.modify(kind, each["metadata"].get("namespace", ""), each["metadata"]["name"], lie)

    do(lie_everywhere())
    settings = Settings(kubeconfig=cluster.kubeconfig, practice=True, read_only=read_only)

    async def connect() -> Session:
        opened.append(await Session.open(settings))
        return opened[-1]

    app = Staying(settings, connect=connect)
    async with app.run_test(size=(90, 26)) as pilot:
        await until(pilot, lambda: app.connected and app.fleet.nodes and app.fleet.jobsets)
        yield app, pilot, seen
        app.workers.cancel_all()
    for session in opened:
        await session.close()


@pytest.mark.slow(reason="hundreds of keys or command lines on a whole practice cluster")
@pytest.mark.parametrize("seed", range(SESSIONS))
async def test_no_key_changes_anything(seed: int, shared: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 keys in three sessions: the console goes on, and sends nothing that changes."""
    assert SESSIONS * PRESSED >= 1500
    pages = set()
    async with console(shared, monkeypatch, read_only=True) as (app, pilot, seen):
        keys = pressed(random.Random(seed))
        for _ in range(PRESSED // 5):
            await pilot.press(*islice(keys, 5))
            pages.add(type(app.screen))
            assert not RAW.search(screen_text(app))
    assert [what for writes, what in seen if writes] == []
    assert len(pages) > 8


@pytest.mark.slow(reason="hundreds of keys or command lines on a whole practice cluster")
async def test_a_key_that_changes_something_is_noticed(shared: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    async with console(shared, monkeypatch, read_only=False) as (app, pilot, seen):
        await press(pilot, "3", "x", then=lambda: isinstance(app.screen, Confirm))
        await press(pilot, "y", then=lambda: any(writes for writes, _ in seen))
