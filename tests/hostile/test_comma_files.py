"""Files of CoMMA that are none, have no end, or cost time to parse: the script in the pod tells of them and goes on."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.attach.many_pods import MAX_ANSWER_BYTES
from console.hang import read_comma
from console.hang.peer_times import parse_peers, read_peer_times
from tests.console.hang.test_peer_times import line, lines, process, read_pod

MIB = 1 << 20
NUMBERS = ("1e308", "-1", "NaN", "Infinity", "9" * 500_000, "9007199254740993", "true", "null", '"1"', "[1]")
GOOD = line(0, 1, 22, 0)
LINES = {
    "junk": b"\xff\xfe\x00{" * 4000,
    "zeros": b"\0" * (5 * MIB),
    "a line without end": b'{"cat":"COLL","x":"' + b"x" * (5 * MIB),
    "nested": (b'{"a":' * 100_000 + b"\n") * 8,
    "nested lists": (b'{"cat":"COLL","proxyops":' + b"[" * 200_000 + b"\n") * 8,
    "escape codes": b'{"cat":"COLL","ts":1,"rank":0,"comm_hash":"\x1b]0;x\x07"}\n' * 1000,
    "escaped escape codes": GOOD.replace("0x58aecebabb9e37af", "\\u001b[2J").encode() + b"\n",
    "half a character": GOOD.replace("0x58aecebabb9e37af", "\\ud800").encode() + b"\n",
    "other brackets": b'{"cat":"COLL","ts":1,"rank":0,"comm_hash":"0x58aecebabb9e37af","dur":1,"proxyops":{"a":1}}\n',
    "other things": b'{"cat":["COLL"]}\n{"cat":"COLL"}\n{}\n{"cat":null}\n' * 1000,
    **{f"numbers: {each[:12]}": GOOD.replace("1048576", each).encode() + b"\n" for each in NUMBERS},
    **{f"ranks: {each[:12]}": GOOD.replace('"peer":1', f'"peer":{each}').encode() + b"\n" for each in NUMBERS},
}


@pytest.mark.parametrize("kind", LINES)
def test_what_is_no_line_of_comma_is_left_out(tmp_path: Path, kind: str) -> None:
    process(tmp_path, 7, "", RANK="0")
    (tmp_path / "latency-7.txt").write_bytes(LINES[kind] + b"\n" + lines(0, 5, 22, 3).encode())
    begun = time.monotonic()
    said = read_pod(tmp_path)
    assert time.monotonic() - begun < 20
    assert len(said) < 1000
    assert b"\x1b" not in said
    (told,) = json.loads(said)["ranks"]
    assert {row[1] for row in told["peers"]} == {5}
    assert {each.peer for each in parse_peers(said)[0].peers} == {5}


@pytest.mark.slow(reason="very long inputs, whose time is measured")
def test_many_communicators_and_peers_are_cut(tmp_path: Path) -> None:
    told = "".join(f"{line(at % 3, at, 22, at, communicator=f'0x{at // 100:016x}', steps=1)}\n" for at in range(9000))
    process(tmp_path, 7, told, RANK="0")
    (found,) = parse_peers(read_pod(tmp_path))
    assert len(found.communicators) == read_comma.MOST_COMMUNICATORS
    assert len(found.peers) == read_comma.MOST_ROWS


@pytest.mark.parametrize("place", ["/dev/zero", "/dev/random", "/proc/kmsg", "fifo", "folder", "/dev/stdin", "loop"])
def test_a_template_that_points_elsewhere_is_not_read(tmp_path: Path, place: str) -> None:
    os.mkfifo(tmp_path / "fifo-7")
    (tmp_path / "folder-7").mkdir()
    (tmp_path / "loop-7").symlink_to(tmp_path / "loop-7")
    target = tmp_path / "link-7"
    if place.startswith("/"):
        target.symlink_to(place)
    process(tmp_path, 7, None, f"/{'link' if place.startswith('/') else place}-%p", RANK="0")
    begun = time.monotonic()
    (told,) = json.loads(read_pod(tmp_path))["ranks"]
    assert time.monotonic() - begun < 10
    assert told["why"]
    assert "peers" not in told


def test_a_file_of_a_terabyte_takes_no_memory(tmp_path: Path) -> None:
    process(tmp_path, 7, "", RANK="0")
    with (tmp_path / "latency-7.txt").open("wb") as file:
        file.seek(1 << 40)
        file.write(b"\n" + lines(0, 5, 22, 3).encode())
    script = [sys.executable, "-IS", str(Path(read_comma.__file__))]
    most = 256 * MIB
    said = subprocess.run(
        ["sh", "-c", f'ulimit -v {most >> 10}; exec "$@"', "sh", *script],
        env={**os.environ, "A4_PROC": str(tmp_path / "proc")}, capture_output=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    assert [row[1] for row in json.loads(said)["ranks"][0]["peers"]] == [5, 5]
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < most


def test_a_pod_full_of_processes_tells_of_some(tmp_path: Path) -> None:
    for pid in range(1, 200):
        process(tmp_path, pid, lines(pid, 5, 22, 1), RANK=str(pid))
    assert len(parse_peers(read_pod(tmp_path))) == read_comma.MOST_PROCESSES


def filled(before: bytes, piece: bytes, after: bytes) -> bytes:
    return before + piece * ((MAX_ANSWER_BYTES - len(before) - len(after)) // len(piece)) + after


ROW = b"[0,1,true,1,20,1,%s,1]"
RANK = b'{"ranks":[{"pid":1,"rank":0,"span":1,"busy":9,"communicators":[["0x58aecebabb9e37af",0]],"peers":['
ANSWERS = {
    "ranks": filled(b'{"ranks":[', b'{"pid":1},', b'{"pid":1}]}'),
    "rows": filled(RANK, ROW % b"1" + b",", ROW % b"1" + b"]}]}"),
    "nested": filled(b'{"ranks":', b"[", b""),
    "infinite": RANK + ROW % b"1e309" + b"]}]}",
    "large": RANK + ROW % b"1e308" + b"]}]}",
    "negative": RANK + ROW % b"-1" + b"]}]}",
    "number": b'{"ranks":[{"pid":' + b"9" * 6000 + b"}]}",
    "escape codes": b'{"ranks":[{"pid":1,"communicators":[["\\u001b[2J",0]]}]}',
    "a long why": b'{"ranks":[{"pid":1,"why":"' + b"x" * 5000 + b'"}]}',
    "a pickle": b"\x80\x04cos\nsystem\n(X\x04\x00\x00\x00trueR.",
}  # fmt: skip


@pytest.mark.parametrize("kind", ANSWERS)
def test_an_answer_that_is_none_is_named(kind: str) -> None:
    times = read_peer_times({0: ANSWERS[kind]}, {})
    assert times is not None
    assert (times.pairs, times.slow) == ((), None)
    assert times.words.startswith(
        "Whether files of CoMMA tell how long data take is not known (What the pod tells of CoMMA"
    )


def test_communicators_that_are_not_there_and_no_time_at_all_are_left_out() -> None:
    several = b",".join([ROW % b"0", b"[7,1,true,1,20,1,1,1]", ROW % b"1e12"])
    times = read_peer_times(dict.fromkeys(range(6), RANK + several + b"]}]}"), {})
    assert times is not None
    assert times.slow is None
    assert "6 of 6 ranks" in times.words
