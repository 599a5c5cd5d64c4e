"""Whether something listens on the port of a pod's SSH server, before an editor is promised."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.attach.ssh.doctor import MAX_BANNER_BYTES, DoctorRun, require_server
from console.errors import Unreachable


class Pod:
    def __init__(self, answer: bytes | Unreachable) -> None:
        self.answer = answer

    async def receive(self) -> bytes:
        if isinstance(self.answer, Unreachable):
            raise self.answer
        return self.answer

    @asynccontextmanager
    async def open_stream(self, target: Any, port: int) -> AsyncIterator[Pod]:
        assert port == 2222
        yield self


async def test_a_server_is_there() -> None:
    await require_server(Pod(b"SSH-2.0-OpenSSH"), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("own", "hint"), [("", "step ssh"), ("Ask an admin.", "Ask an admin.")])
async def test_nothing_listens(own: str, hint: str) -> None:
    closed = Pod(Unreachable("Nothing listens on port 2222 of pod a.", own))
    with pytest.raises(Unreachable, match="Nothing listens on port 2222 of pod a") as caught:
        await require_server(closed, None)  # type: ignore[arg-type]
    assert hint in caught.value.hint


async def test_of_a_banner_without_end_as_much_is_shown_as_one_may_have() -> None:
    banner = asyncio.ensure_future(Pod(b"SSH-2.0-" + b"x" * 10_000).receive())
    shown = await DoctorRun.check_banner(cast("Any", SimpleNamespace(_first_read=banner)))
    assert shown.startswith("SSH-2.0-xxx")
    assert len(shown) == MAX_BANNER_BYTES + 1, "with its full stop"
