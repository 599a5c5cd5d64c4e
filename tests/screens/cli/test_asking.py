"""Questions on the terminal and standard input for programs: nobody's Enter is waited for."""

import asyncio
import os
import pty
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from screens.cli.prompts import ask_line, read_stdin

LIMIT = 60


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    keys, screen = pty.openpty()
    with os.fdopen(screen, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keys
    os.close(keys)


@pytest.mark.parametrize(("pressed", "meant"), [(b"Yes \n", "yes"), (b"\n", ""), (b"\x04", None)])
def test_an_answer_or_the_end(keys: int, pressed: bytes, meant: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    os.write(keys, pressed)
    assert asyncio.run(ask_line("Stop? ")) == meant
    assert capsys.readouterr().err == "Stop? "


@pytest.mark.usefixtures("keys")
def test_who_leaves_a_question_need_not_answer_it() -> None:
    async def leave() -> None:
        async with asyncio.timeout(LIMIT):
            question = asyncio.create_task(ask_line("Stop? "))
            await asyncio.sleep(0)
            question.cancel()
            with pytest.raises(asyncio.CancelledError):
                await question
            # A thread that still read here would keep the loop from ending.
            await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(leave())


def test_input_comes_as_it_is_typed_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    got: list[bytes] = []

    async def read() -> None:
        async with asyncio.timeout(LIMIT):
            async for data in read_stdin():
                got.append(data)
                os.close(writer) if got[1:] else os.write(writer, b"two")

    os.write(writer, b"one")
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        asyncio.run(read())
    assert got == [b"one", b"two"]


def test_a_file_is_input_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def read() -> bytes:
        return b"".join([data async for data in read_stdin()])

    path = tmp_path / "input"
    path.write_bytes(b"x" * 100_000)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert asyncio.run(read()) == b"x" * 100_000
