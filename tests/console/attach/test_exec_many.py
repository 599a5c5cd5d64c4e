from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from console.attach import fan_out
from console.attach.exec_many import (
    ContainerExec,
    OutputGroup,
    RankOutput,
    group_outputs,
    parse_ranks,
    worst_exit_code,
)
from console.errors import BadInput
from console.scheduling.pod_slots import PodSlot
from practice.api.exec_channels import ExecSession
from practice.runtime import Stdio
from tests.apiserver import ApiServer, eventually, status
from tests.bench.many_pods import MAX_STREAMS, Streams
from tests.screens.scene import jobset, rank
from trainlog import format_ranges


def output(rank: int, text: str, code: int | None = 0, failure: str = "") -> RankOutput:
    return RankOutput(rank, f"pod-{rank}", "node", code, text, "", failure)


def test_equal_outputs_stand_together_and_the_few_are_odd() -> None:
    outputs = [*(output(rank, "580\n") for rank in range(6)), output(6, "570\n"), output(7, "", 1, "It broke off.")]
    assert group_outputs(reversed(outputs)) == (
        OutputGroup((0, 1, 2, 3, 4, 5), 0, "580"),
        OutputGroup((6,), 0, "570", differs=True),
        OutputGroup((7,), 1, "It broke off.", differs=True),
    )
    assert [group.description for group in group_outputs(outputs)] == ["pods 0-5", "pod 6", "pod 7"]
    assert worst_exit_code(outputs) == 1


def test_without_a_majority_nobody_is_odd() -> None:
    assert not any(group.differs for group in group_outputs([output(rank, f"host-{rank}") for rank in range(8)]))
    assert not any(group.differs for group in group_outputs([output(rank, str(rank % 2)) for rank in range(4)]))
    assert group_outputs([]) == ()


def test_the_same_words_with_another_code_are_another_answer() -> None:
    groups = group_outputs([output(0, "x"), output(1, "x", 3), output(2, "still at work", None)])
    assert [(group.ranks, group.differs) for group in groups] == [((0,), False), ((1,), True)]
    assert worst_exit_code([]) == 0


def test_ranks_are_ranges_in_both_directions() -> None:
    assert parse_ranks("0-2, 7,9-10", range(11)) == (0, 1, 2, 7, 9, 10)
    assert parse_ranks(format_ranges(range(8)), range(8)) == tuple(range(8))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a list"),
        ("a", "not a list"),
        ("1-", "not a list"),
        ("3-1", "not an ascending range"),
        ("0-8", "no pod 8"),
        ("-1", "not a list"),
    ],
)
def test_ranks_that_cannot_be_meant_are_refused(text: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        parse_ranks(text, range(8))


class Crowded(Streams):
    """Commands that end once as many streams as that were refused."""

    def __init__(self, refused: int) -> None:
        super().__init__()
        self.wanted = refused

    async def carry(self, request: web.Request, opened: web.WebSocketResponse) -> None:
        await ExecSession(opened, request.query).run(self.say)

    async def say(self, stdio: Stdio) -> int:
        await eventually(lambda: self.refused >= self.wanted)
        await stdio.write(1, b"here\n")
        return 3


async def run_in_40(server: ApiServer, answer: Any) -> tuple[RankOutput, ...]:
    every = [PodSlot(at, "workload", 0, at, 8, rank(jobset("train", 40), at, f"node-{at}")) for at in range(40)]
    for each in every:
        assert each.pod is not None
        server.handlers[f"/api/v1/namespaces/{each.pod.namespace}/pods/{each.pod.name}/exec"] = answer
    async with server.client() as client:
        connection = SimpleNamespace(client=client)
        watched = SimpleNamespace(connection_for_change=lambda _: connection, current_connection=connection)
        return await ContainerExec(cast("Any", watched)).run_in_ranks(every, ("true",), concurrency=40)


async def test_a_stream_for_which_the_api_server_has_no_room_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fan_out, "STREAM_RETRY_PAUSES", (0.01,) * 500)
    streams = Crowded(40 - MAX_STREAMS)
    async with ApiServer(secure=True) as server:
        outputs = await run_in_40(server, streams.answer)
    assert {(each.code, each.output) for each in outputs} == {(3, "here\n")}
    assert (streams.every, streams.most) == (40, MAX_STREAMS), "each command has run once"
    assert streams.refused >= 40 - MAX_STREAMS


@pytest.mark.parametrize(("code", "tries"), [(500, 3), (503, 3), (502, 1), (504, 1), (403, 1), (404, 1)])
async def test_what_may_have_run_or_is_forbidden_is_not_tried_again(
    code: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "STREAM_RETRY_PAUSES", (0.0, 0.0))
    asked = list[str]()

    async def refuse(request: web.Request) -> web.StreamResponse:
        asked.append(request.path)
        return status(code, "not now")

    async with ApiServer(secure=True) as server:
        outputs = await run_in_40(server, refuse)
    assert len(asked) == 40 * tries
    assert all(each.code and "not now" in each.failure for each in outputs), outputs[0]
