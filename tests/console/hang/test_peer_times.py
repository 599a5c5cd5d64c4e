"""How long data take to peers, by files with the lines that CoMMA's source writes, read by the script in a pod."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from console.hang import read_comma
from console.hang.peer_times import ask_peer_times, read_peer_times
from console.hang.report_lines import format_slow_report
from console.hang.slow_rank_words import LateRank
from console.hang.slow_ranks import SlowReport, add_peer_times
from console.scheduling.ranks import ranks as ranks_of
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from console.kube.objects.pod import Pod

MIB = 1 << 20
HASH = "0x58aecebabb9e37af"
NODES = {number: f"node-{number}" for number in range(8)}
JOB = jobset("comma", 2)
BEGUN = 1_780_000_000_000_000


def line(
    own: int, peer: int, us: int, seq: int, *, communicator: str = HASH, waits: int = 900, steps: int = 4, **more: Any
) -> str:
    """One all_reduce as NcclOp::trace_record writes it, with sorted keys; `us` a step of 1 MiB is in the network."""
    begun = BEGUN + seq * 10_000
    told = [
        {"end_time": at + waits + us, "fifo_ready_time": at + waits, "size": MIB, "start_time": at, "step": number + 1}
        for number in range(steps)
        for at in [seq * 10_000 + number * 40]
    ]
    sends = {"cat": "PROXY", "channel_id": 0, "chunk_size": MIB, "dur": us, "is_send": True, "n_steps": steps,
             "name": "ProxyOp", "parent": "<ncclop 3>", "peer": peer, "ph": "X", "pid": 169, "rank": own,
             "steps": told, "ts": begun}  # fmt: skip
    receives = {**sends, "is_send": False, "steps": [{"end_time": 5000, "size": MIB, "start_time": 0, "step": 1}]}
    return json.dumps(
        {"algo": "ring", "args": {"size": 20 * MIB}, "cat": "COLL", "child_dur": 4000, "child_start_ts": begun,
         "comm_hash": communicator, "dur": 9000, "n_max_channel": 8, "name": "all_reduce", "ph": "X", "proto": "SIMPLE",
         "proxyops": [receives, sends], "rank": own, "seq_num": seq, "ts": begun, **more},
        sort_keys=True, separators=(",", ":"),
    )  # fmt: skip


def lines(own: int, peer: int, us: int, count: int = 30, **more: Any) -> str:
    return "".join(f"{line(own, peer, us, seq, **more)}\n" for seq in range(count))


def process(root: Path, pid: int, told: str | None, template: str = "/latency-%p.txt", **env: str) -> None:
    folder = root / "proc" / str(pid)
    (folder / "cwd").mkdir(parents=True)
    whole = {"NCCL_PROFILER_LATENCY_FILE": f"{root}{template}", **env}
    (folder / "environ").write_bytes("".join(f"{name}={value}\0" for name, value in whole.items()).encode())
    if told is not None:
        (root / f"latency-{pid}.txt").write_text(told)


def read_pod(root: Path) -> bytes:
    """What the script prints in a pod with these processes."""
    script = Path(read_comma.__file__)
    env = {**os.environ, "A4_PROC": str(root / "proc")}
    return subprocess.run([sys.executable, "-IS", script], env=env, capture_output=True, check=True, timeout=60).stdout


def read_ring(
    root: Path, us: Callable[[int, int], int], pods: int = 4, a_pod: int = 2, **env: str
) -> Mapping[int, bytes]:
    """The answers of pods whose ranks send to the same place in the next and the previous pod."""
    found = {}
    for pod in range(pods):
        for local in range(a_pod):
            own = pod * a_pod + local
            both = ((pod + 1) % pods * a_pod + local, (pod - 1) % pods * a_pod + local)
            told = "".join(lines(own, peer, us(own, peer)) for peer in both)
            said = {"RANK": str(own), "LOCAL_RANK": str(local), **env}
            process(root / str(pod), 1202 + local, told, **{name: value for name, value in said.items() if value})
        found[pod] = read_pod(root / str(pod))
    return found


def test_a_row_for_each_peer_and_direction(tmp_path: Path) -> None:
    process(tmp_path, 1202, lines(3, 5, 21), RANK="3", LOCAL_RANK="1")
    process(tmp_path, 1300, None, RANK="3", LOCAL_RANK="1")  # a worker of its data loader
    (told,) = json.loads(read_pod(tmp_path))["ranks"]
    assert (told["pid"], told["rank"], told["gpu"], told["lines"]) == (1202, 3, 1, 30)
    assert (told["span"], told["busy"]) == (299_000, 120_000)
    assert told["communicators"] == [[HASH, 3]]
    assert told["peers"] == [[0, 5, True, MIB, 120, 120 * MIB, 21.0, 21], [0, 5, False, MIB, 30, 30 * MIB, 5000, 5000]]


@pytest.mark.slow(reason="starts programs of its own")
def test_the_last_part_of_a_large_file_is_read_and_cut_lines_are_left_out(tmp_path: Path) -> None:
    whole = lines(0, 1, 900, 20) + lines(0, 2, 20, 9000)
    assert len(whole) > 2 * read_comma.TAIL
    process(tmp_path, 7, whole + line(0, 3, 20, 9)[:-30], RANK="0")
    begun = time.monotonic()
    (told,) = json.loads(read_pod(tmp_path))["ranks"]
    assert {row[1] for row in told["peers"]} == {2}
    assert 0 < told["lines"] < 9000
    assert time.monotonic() - begun < 20


def test_without_steps_or_with_an_old_file_it_is_said_why(tmp_path: Path) -> None:
    plain = json.loads(line(0, 1, 20, 0))
    del plain["proxyops"]
    process(tmp_path, 1, json.dumps(plain) + "\n", RANK="0")
    process(tmp_path, 2, "", RANK="1")
    process(tmp_path, 3, lines(2, 1, 20), RANK="2")
    os.utime(tmp_path / "latency-3.txt", (1, 1))
    process(tmp_path, 4, lines(3, 1, 20), "/latency-4.txt", RANK="3")
    whys = [each["why"] for each in json.loads(read_pod(tmp_path))["ranks"]]
    assert whys[:2] == ["its lines have no steps (NCCL_PROFILER_TRACK_STEPS)", "its file has no lines of CoMMA yet"]
    assert whys[2].startswith("its file of CoMMA was last written ")
    assert whys[3] == "all ranks of a pod write to the same file: NCCL_PROFILER_LATENCY_FILE has no %p"
    times = read_peer_times({0: read_pod(tmp_path)}, NODES)
    assert times is not None
    assert times.words.startswith("CoMMA's files of 0 of 4 ranks told how long data take to their peers (its lines")


def test_the_pod_whose_data_go_slowly_is_named(tmp_path: Path) -> None:
    times = read_peer_times(read_ring(tmp_path, lambda own, peer: 95 if 2 in (own // 2, peer // 2) else 22), NODES)
    assert times is not None
    assert times.slow is not None
    assert times.words == "CoMMA's files of 8 of 8 ranks told how long data take to their peers"
    late = LateRank(0, "", 1, 0, 0.2, 0.1, 0.3, slow=True, cause="host")
    report = add_peer_times(SlowReport(late=(late,), polls=200), times)
    (slow,) = report.slow
    assert (slow.cause, slow.pod_index, slow.node, slow.rank) == ("network", 2, "node-2", 4)
    assert report.words[0].startswith(
        "Rank 4 (pod 2, GPU 0) on node-2: the others wait for it, at most for 40 % of each step"
    )
    assert report.words[0].endswith(
        ", because of the network of its pod: its data take 95 µs per MiB to rank 2 (pod 1) on node-1, those of other "
        "ranks 22 µs."
    )
    assert "CoMMA's files of 8 of 8 ranks told how long data take to their peers." in format_slow_report(report)
    assert {each.member.pod_index for each in times.pairs if each.slow} == {1, 2, 3}
    json.dumps(msgspec.to_builtins(report))


def test_one_slow_pair_is_named_with_both_ends(tmp_path: Path) -> None:
    times = read_peer_times(read_ring(tmp_path, lambda own, peer: 95 if (own, peer) == (1, 3) else 22), NODES)
    (slow,) = add_peer_times(SlowReport(polls=200), times).slow
    assert (slow.rank, slow.gpu, slow.pid, slow.node) == (1, 1, 1203, "node-0")
    assert slow.evidence == (
        "its data take 95 µs per MiB to rank 3 (pod 1) on node-1, those of other ranks 22 µs; the network of either "
        "can be the cause"
    )
    assert 0.3 < slow.high < 0.5, "no longer than its operations are in the network"


def test_equal_links_and_waiting_for_the_receiver_are_no_slow_link(tmp_path: Path) -> None:
    times = read_peer_times(read_ring(tmp_path, lambda own, peer: 20 + (own + peer) % 5), NODES)
    assert times is not None
    assert times.slow is None
    assert len(times.pairs) == 32
    healthy = SlowReport(polls=200, bound=0.02)
    assert add_peer_times(healthy, times).words == healthy.words


def test_a_late_receiver_makes_no_link_slow(tmp_path: Path) -> None:
    for own, peer, waits in ((0, 2, 90), (1, 3, 9000), (2, 0, 90), (3, 1, 90)):
        process(tmp_path / str(own), 5, lines(own, peer, 22, waits=waits), RANK=str(own))
    times = read_peer_times({own: read_pod(tmp_path / str(own)) for own in range(4)}, NODES)
    assert times is not None
    assert {each.us_per_mib for each in times.pairs if each.direction == "send"} == {22}
    assert times.slow is None


def test_numbers_of_a_communicator_are_no_ranks_of_the_job(tmp_path: Path) -> None:
    answers = read_ring(tmp_path, lambda own, peer: 95 if (own, peer) == (1, 3) else 22, RANK="")
    times = read_peer_times(answers, NODES)
    assert times is not None
    assert times.slow is not None
    assert times.slow.member.rank is None
    assert f"to rank 3 of communicator {HASH} (pod 1) on node-1" in times.slow.what
    (words,) = add_peer_times(SlowReport(polls=200), times).words
    assert words.startswith("Process 1203 on node-0 (GPU 1): ")


def test_who_claims_the_place_of_another_is_not_believed(tmp_path: Path) -> None:
    answers = dict(read_ring(tmp_path, lambda own, peer: 95 if (own, peer) == (1, 3) else 22))
    process(tmp_path / "liar", 9, lines(3, 1, 22), RANK="1")
    answers[7] = read_pod(tmp_path / "liar")
    times = read_peer_times(answers, NODES)
    assert times is not None
    assert {each.peer.rank for each in times.pairs if each.peer.number == 3} == {None}
    assert not [each for each in times.pairs if each.member.number == 3]
    assert {each.member.rank for each in times.pairs if each.member.number == 1} == {None}


def test_without_files_one_pod_is_asked_and_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "proc" / "1").mkdir(parents=True)
    (tmp_path / "proc" / "1" / "environ").write_bytes(b"RANK=0\0")
    said, asked = read_pod(tmp_path), []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        asked.append(pod.name)
        take(1, b"a banner of the shell\n" + said)
        return 0

    every = ranks_of(JOB, fleet_of(JOB, *[rank(JOB, number, f"node-{number}") for number in range(JOB.ranks)]))
    times = asyncio.run(ask_peer_times(run, every))
    assert (times, len(asked)) == (None, 1)
    report = add_peer_times(SlowReport(polls=200), times)
    assert msgspec.to_builtins(report)["peers"] is None
    assert not any("CoMMA" in each for each in format_slow_report(report))


def test_with_a_file_in_the_first_pod_every_pod_is_asked_once(tmp_path: Path) -> None:
    answers = read_ring(tmp_path, lambda own, peer: 95 if (own, peer) == (1, 3) else 22)
    job, asked = jobset("comma", len(answers)), []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        asked.append(pod.completion_index)
        take(1, answers[pod.completion_index])
        return 0

    every = ranks_of(job, fleet_of(job, *[rank(job, number, f"node-{number}") for number in range(job.ranks)]))
    times = asyncio.run(ask_peer_times(run, every))
    assert sorted(asked) == [0, 1, 2, 3]
    assert times is not None
    assert times.slow is not None
    assert (times.slow.member.rank, times.slow.member.node) == (1, "node-0")
