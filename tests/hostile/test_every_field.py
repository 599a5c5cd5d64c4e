"""A lying API server with control sequences in every text of every object: plain commands and the console obey none.

The objects are the recorded ones, filled up with every field that the readers' types have: a new field is attacked as
soon as somebody reads it.
"""

import json
import os
import pty
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec.inspect as types
import pytest

from console.kube.snapshot import FLEET_FIELDS, Fleet
from console.kube.watched_kinds import KINDS, Kind
from screens.__main__ import main
from tests.apiserver import served_in_thread
from tests.fakes import FakeSession, live_links
from tests.hostile.payloads import PAYLOADS, RAW
from tests.screens.press import console, screen_text
from tests.terminals import read_piece

API = Path(__file__).parents[1] / "fixtures" / "api"
ALL = tuple(PAYLOADS.values())
PLAIN = frozenset(
    {
        "phase", "status", "type", "operator", "effect", "restartPolicy", "kind", "apiVersion", "name", "namespace",
        "uid", "resourceVersion", "completionMode", "scope", "nodeName", "queueingStrategy", "clusterQueue",
        "localQueue", "cohort", "cohortName", "flavor", "flavors", "queueName",
    }
)  # fmt: skip
"""Words of which the meaning would be gone."""
WORLDS = ("everything lies", "all that may be any text lies", "only what nothing depends on lies")
"""In the first no object can be read: times and amounts lie too."""


def filled(of: types.Type, key: str = "") -> Any:
    """A value with every field that a type has."""
    match of:
        case types.StructType():
            return {each.encode_name: filled(each.type, each.encode_name) for each in of.fields}
        case types.UnionType():
            return next(filled(each, key) for each in of.types if not isinstance(each, types.NoneType))
        case types.ListType():
            return [filled(of.item_type, key)]
        case types.DictType():
            return {"a-key\x1b]0;PWNT\x07": filled(of.value_type, key)}
        case types.BoolType():
            return True
        case types.IntType() | types.FloatType():
            return 1
    return "2026-11-21T07:00:00Z" if key.endswith(("Time", "Timestamp", "At")) else "7"


def merged(known: Any, more: Any) -> Any:
    """What is known, and what it lacks."""
    if isinstance(known, dict) and isinstance(more, dict):
        return {**more, **{key: merged(value, more.get(key)) for key, value in known.items()}}
    if isinstance(known, list) and isinstance(more, list) and more:
        return [merged(each, more[0]) for each in known] or more
    return more if known is None else known


Keys = tuple[str, ...]


def poisoned(value: Any, kept: Callable[[Keys], bool], keys: Keys = ()) -> Any:
    """With a payload behind every text; the same behind the same one, so that references still lead somewhere."""
    if isinstance(value, dict):
        return {name: poisoned(each, kept, (*keys, name)) for name, each in value.items()}
    if isinstance(value, list):
        return [poisoned(each, kept, keys) for each in value]
    if not isinstance(value, str) or kept(keys):
        return value
    return f"{value}{ALL[crc32(value.encode()) % len(ALL)]}"


def texts_in(value: Any, keys: Keys = ()) -> Iterator[Keys]:
    """Where there are texts."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from texts_in(each, (*keys, name))
    elif isinstance(value, list):
        for each in value:
            yield from texts_in(each, keys)
    elif isinstance(value, str):
        yield keys


def is_readable(kind: Kind, item: Any) -> bool:
    page = kind.reader.read_page(json.dumps({"items": [item]}).encode())
    return bool(kind.reader.build_models(page.items)[0])


@cache
def clean_objects(kind: Kind) -> tuple[dict[str, Any], ...]:
    """The recorded objects of a kind and one that is made up, with all fields."""
    full = filled(types.type_info(kind.reader._schema))
    paths = sorted(API.glob(f"{kind.plural}*.json"))[-1:]
    recorded = [each for path in paths for each in json.loads(path.read_text())["items"]]
    named = {"metadata": {"name": f"a-{kind.plural}", "namespace": "default", "uid": f"uid-{kind.plural}"}}
    whole = [(each, merged(each, full)) for each in (*recorded, named)]
    return tuple(more if is_readable(kind, more) else each for each, more in whole)


@cache
def objects(kind: Kind, world: str) -> tuple[dict[str, Any], ...]:
    """The same, hostile."""
    found = []
    for item in clean_objects(kind):
        assert is_readable(kind, item), item
        fixed = {
            keys
            for keys in texts_in(item)
            if not is_readable(kind, poisoned(item, lambda each, only=keys: each != only))  # type: ignore[misc]
        }  # times and amounts
        if world == WORLDS[0]:
            fixed = set()
        elif world == WORLDS[2]:
            fixed |= {keys for keys in texts_in(item) if keys[-1] in PLAIN}
        found.append(poisoned(item, fixed.__contains__))
    return tuple(found)


def fields_of(of: types.Type, keys: Keys = ()) -> Iterator[Keys]:
    """Where a type has texts; the keys of a dictionary are the value's own."""
    match of:
        case types.StructType():
            for each in of.fields:
                yield from fields_of(each.type, (*keys, each.encode_name))
        case types.UnionType():
            for one in of.types:
                yield from fields_of(one, keys)
        case types.ListType():
            yield from fields_of(of.item_type, keys)
        case types.DictType():
            yield from fields_of(of.value_type, (*keys, "a-key\x1b]0;PWNT\x07"))
        case types.StrType():
            yield keys


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.plural))
def test_every_text_that_is_read_is_attacked(kind: Kind) -> None:
    """No field of the readers' types is missing; what must not be any text is told by the type's reader."""
    wanted = set(fields_of(types.type_info(kind.reader._schema)))
    assert len(wanted) > 10
    made = clean_objects(kind)[-1]
    assert wanted <= set(texts_in(made))
    assert all(is_readable(kind, each) for each in objects(kind, WORLDS[1]))
    lie = objects(kind, WORLDS[1])[-1]
    honest = {keys for keys in wanted if poisoned(made, lambda each, only=keys: each != only) != made}  # type: ignore[misc]
    assert honest == wanted
    assert str(lie).count("PWNT") > 0


@contextmanager
def lying(world: str, folder: Path) -> Iterator[Path]:
    """The kubeconfig of such a server, in a thread of its own."""
    with served_in_thread() as server:
        for kind in KINDS:
            for each in objects(kind, world):
                place = each["metadata"]["namespace"], each["metadata"]["name"]
                server.objects[kind.path(kind.versions[0])][place] = each
        yield server.kubeconfig(folder)


def on_terminal(words: list[str], patch: pytest.MonkeyPatch) -> str:
    """What a command writes to a pseudo-terminal."""
    ours, theirs = pty.openpty()
    shown = bytearray()

    def read() -> None:
        while piece := read_piece(ours):
            shown.extend(piece)

    reader = threading.Thread(target=read)
    reader.start()
    with open(theirs, "w", encoding="utf-8", newline="") as terminal, patch.context() as patched:  # noqa: PTH123
        patched.setattr("sys.stdout", terminal)
        patched.setattr("sys.stderr", terminal)
        patched.setattr("sys.stdin", open(os.devnull))  # noqa: PTH123, SIM115
        patched.setenv("COLUMNS", "400")
        with suppress(SystemExit):
            main(words)
    reader.join(30)
    os.close(ours)
    return shown.decode(errors="replace").replace("\r\n", "\n")


COMMANDS = ("pools", "nodes", "queues", "workloads", "jobs", "pods", "alarms", "why", "history", "stop", "releases",
            "facts", "logs", "gpus", "preflight")  # fmt: skip


@pytest.mark.slow(reason="every page and every command on a practice cluster that lies")
@pytest.mark.parametrize("world", WORLDS)
def test_no_command_lets_anything_through(world: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    seen = Counter[str]()
    with lying(world, tmp_path) as kubeconfig:
        jobset = objects(next(each for each in KINDS if each.plural == "jobsets"), world)[0]["metadata"]["name"]
        for command in COMMANDS if world == WORLDS[1] else COMMANDS[:-1]:  # the last one waits for Google
            words = {
                "why": [jobset], "facts": [jobset, "0"], "logs": [jobset, "0"], "stop": [jobset, "--dry-run"],
                "gpus": [jobset], "jobs": ["-A"], "pods": ["-A"],
                "preflight": ["nccl-all-reduce"], "alarms": ["--listen", "1"],
            }.get(command, [])  # fmt: skip
            text = on_terminal([command, "--kubeconfig", str(kubeconfig), *words], monkeypatch)
            assert text, command
            assert not RAW.search(text), command
            seen[command] = text.count("PWNT") + text.count("·")
    assert sum(times > 0 for times in seen.values()) >= 5, seen


@pytest.mark.slow(reason="every page and every command on a practice cluster that lies")
@pytest.mark.parametrize("world", WORLDS)
async def test_no_page_lets_anything_through(world: str) -> None:
    found: dict[str, Any] = {}
    for kind in KINDS:
        body = json.dumps({"metadata": {}, "items": objects(kind, world)}).encode()
        found[FLEET_FIELDS[kind.plural]] = kind.reader.build_models(kind.reader.read_page(body).items)[0]
    assert all(found.values()) == (world != WORLDS[0])
    session = FakeSession(Fleet(at=1.0, links=live_links(), **found))
    pages = ("1", "enter", "2", "w", "w", "3", "enter", "w", "w", "e", "4", "enter", "5", "enter", "6", "question_mark")
    drawn = 0
    async with console(session, size=(160, 50)) as (app, pilot, _):
        for key in pages:
            await pilot.press(key)
            await pilot.pause()
            shown = screen_text(app)
            assert not RAW.search(shown), f"after {key}"
            drawn += shown.count("·") + shown.count("PWNT")
    assert drawn or world == WORLDS[0]
