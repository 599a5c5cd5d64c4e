import asyncio
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from console.errors import NotAllowed, NotFound, ProgramFailed, Unreachable
from console.kube.exec import exit_code, run
from tests.apiserver import ApiServer, forbidden, status
from tests.console.kube.kubelet import EXEC, V4, V5, Exec, ended


async def ran(
    server: ApiServer, *argv: str, stdin: bytes | AsyncIterator[bytes] | None = None, container: str = ""
) -> tuple[int, list[tuple[int, bytes]]]:
    said: list[tuple[int, bytes]] = []
    async with server.client() as client, asyncio.timeout(60):
        code = await run(
            client, "default", "p", argv, lambda fd, data: said.append((fd, data)), stdin=stdin, container=container
        )
    return code, said


@pytest.mark.parametrize("protocol", [V5, V4])
async def test_output_and_exit_code(protocol: str) -> None:
    async def behave(command: Exec) -> None:
        await command.say(1, b"")  # API servers begin so
        await command.say(1, b"out\n")
        await command.say(2, b"err\n")
        await command.say(3, ended(3))

    async with ApiServer() as server:
        command = server.handlers[EXEC] = Exec(behave, (protocol,))
        assert await ran(server, "sh", "-c", "a b; c", container="main") == (3, [(1, b"out\n"), (2, b"err\n")])
        assert command.socket.ws_protocol == protocol
        assert command.parameter("command") == ["sh", "-c", "a b; c"]
        assert command.parameter("container") == ["main"]
        assert (command.parameter("stdin"), command.parameter("stdout"), command.parameter("tty")) == ([], ["true"], [])


async def test_a_reader_who_has_gone_is_not_the_api_server() -> None:
    async def behave(command: Exec) -> None:
        await command.say(1, b"y\n")
        await command.all_input()

    def gone(_: int, __: bytes) -> None:
        raise BrokenPipeError

    async with ApiServer() as server, server.client() as client, asyncio.timeout(60):
        server.handlers[EXEC] = Exec(behave)
        with pytest.raises(BrokenPipeError):
            await run(client, "default", "p", ["yes"], gone)


async def test_input_and_its_end() -> None:
    async def behave(command: Exec) -> None:
        await command.say(1, str(len(await command.all_input())).encode())
        await command.say(3, ended(0))

    async def lines() -> AsyncIterator[bytes]:
        for each in (b"one\n", b"two\n"):
            yield each

    async with ApiServer() as server:
        server.handlers[EXEC] = Exec(behave)
        assert await ran(server, "wc", stdin=b"x" * 200_000) == (0, [(1, b"200000")])
        server.handlers[EXEC] = Exec(behave)
        assert await ran(server, "wc", stdin=lines()) == (0, [(1, b"8")])


async def test_a_command_that_ends_before_its_input() -> None:
    async def behave(command: Exec) -> None:
        await command.say(3, ended(0))

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"y\n"
            await asyncio.sleep(0)

    async with ApiServer() as server:
        server.handlers[EXEC] = Exec(behave)
        assert await ran(server, "true", stdin=endless()) == (0, [])


async def test_a_connection_that_breaks_off() -> None:
    async def behave(command: Exec) -> None:
        await command.say(1, b"half")

    async with ApiServer() as server:
        server.handlers[EXEC] = Exec(behave)
        with pytest.raises(Unreachable, match="`train` in pod p to the end: the connection was lost"):
            await ran(server, "train")


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (forbidden("pods/exec"), NotAllowed, "cannot list"),
        (status(404, 'pods "p" not found', reason="NotFound"), NotFound, 'pods "p" not found'),
    ],
)
async def test_a_refusal_is_reported_in_the_servers_words(
    answer: web.Response, kind: type[Exception], said: str
) -> None:
    async with ApiServer() as server:
        server.refuse[EXEC] = answer
        with pytest.raises(kind, match=said):
            await ran(server, "true")


def test_exit_codes_in_words_only() -> None:
    assert exit_code(b'{"status":"Failure","message":"error executing command in container: exit status 3"}', "x") == 3
    with pytest.raises(ProgramFailed, match="executable file not found") as caught:
        exit_code(b'{"status":"Failure","message":"exec: \\"nope\\": executable file not found in $PATH"}', "`nope`")
    assert caught.value.code == 126
    with pytest.raises(ProgramFailed, match="no json"):
        exit_code(b"no json", "x")
