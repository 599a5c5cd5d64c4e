"""The archive of a hang: what pods print and answer is in it, and no secret of theirs."""

import io
import json
import os
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from console.errors import BadInput
from console.hang.bundle import LAST_LINES, MAX_UNASKED_BUNDLES, write_automatic_bundle, write_bundle
from rankscope import (
    GroupRanks,
    HangReport,
    LateRank,
    Operation,
    RankDump,
    RasReport,
    SlowReport,
    TracedProcess,
    format_report,
    report_to_json,
)
from tests.console.hang.test_inspector import Cluster
from tests.fakes import FakeConnection

TOKEN = "hf_" + "Ab3" * 11


def report() -> HangReport:
    dump = RankDump(
        0,
        groups={f"AWS_SECRET_ACCESS_KEY=pumpernickel {TOKEN}": GroupRanks("", [0])},
        operations=[Operation("0", 1, f"nccl:{TOKEN}")],
    )
    process = TracedProcess(
        9, 1, "hung-1", "n1", 1202, command=f"HF_TOKEN={TOKEN} python train.py --api-key pumpernickel"
    )
    return HangReport("hung", (), (process,), RasReport(text=f"NCCL version {TOKEN}"), dumps=(dump,))


async def test_secrets_are_redacted_in_every_file(tmp_path: Path) -> None:
    place = tmp_path / "hang.tar.gz"
    assert await write_bundle(cast("Any", Cluster()), "default", report(), place) == place.stat().st_size
    assert place.stat().st_mode & 0o777 == 0o600
    with tarfile.open(place) as archive:
        files = {each.name.rpartition("/")[2]: cast("io.BytesIO", archive.extractfile(each)).read() for each in archive}
    whole = b"".join(files.values())
    assert TOKEN.encode() not in whole
    assert b"pumpernickel" not in whole
    assert files["report.txt"].startswith(b"hung in namespace default, inspected on 1970-01-01 00:00:00 UTC\n\n")
    assert files["report.txt"].endswith(b"\n")
    assert b"1 no stack" in files["report.txt"]
    assert json.loads(files["report.json"])["processes"][0]["rank"] == 9
    assert json.loads(files["recorder.json"])[0]["operations"][0]["seq"] == 1
    for name in ("nccl-lines.txt", "last-lines.txt"):
        assert "its log was not read to its end: You may not read logs." in files[name].decode()


async def test_the_last_lines_of_logs_are_in_it_and_those_of_nccl(tmp_path: Path) -> None:
    printed = (f"NCCL WARN {number}" if number % 75 == 0 else f"step {number}" for number in range(LAST_LINES + 50))
    place, cluster = tmp_path / "hang.tar.gz", Cluster()
    cluster.current_connection = FakeConnection(*printed)
    await write_bundle(cast("Any", cluster), "default", report(), place)
    with tarfile.open(place) as archive:
        files = {each.name.rpartition("/")[2]: cast("io.BytesIO", archive.extractfile(each)).read() for each in archive}
    of_nccl, last = (files[name].decode().splitlines() for name in ("nccl-lines.txt", "last-lines.txt"))
    assert of_nccl[0].startswith("── pod 0 ")
    assert of_nccl[1:3] == ["NCCL WARN 0", "NCCL WARN 75"]
    assert (last[1], last[LAST_LINES]) == ("step 50", f"step {LAST_LINES + 49}")


async def test_a_slow_rank_has_its_archive_too(tmp_path: Path) -> None:
    place = tmp_path / "slow.tar.gz"
    late = LateRank(
        9, "10.0.0.2", 1202, 1, 0.07, 0.06, 0.08, slow=True, cause="host", pod_index=1, node="n1", evidence=TOKEN
    )
    found = SlowReport("hung", "2.28.9", "json", 16, 900, 10.0, 90, (late,), timed="All ranks told", at=60.0)
    await write_bundle(cast("Any", Cluster()), "default", found, place)
    with tarfile.open(place) as archive:
        assert {each.name.partition("/")[0] for each in archive} == {"hung-slow"}
        files = {each.name.rpartition("/")[2]: cast("io.BytesIO", archive.extractfile(each)).read() for each in archive}
    assert sorted(files) == [
        "events.json",
        "last-lines.txt",
        "nccl-lines.txt",
        "nodes.json",
        "report.json",
        "report.txt",
    ]
    text = files["report.txt"].decode()
    head = "hung in namespace default, measured on 1970-01-01 00:01:00 UTC"
    assert text.startswith(f"{head}\n\nRank 9 (pod 1, GPU 1) on n1")
    assert "NCCL 2.28.9 answered 900 times in 10 s for 16 ranks, 90 launches (json).\nAll ranks told.\n" in text
    told = json.loads(files["report.json"])
    assert (told["late"][0]["rank"], told["told"]) == (9, True)
    assert TOKEN.encode() not in b"".join(files.values())
    assert files["last-lines.txt"].startswith("── pod 1 hung-workload-0-1-x7k1, for which the others wait\n".encode())


async def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    place = tmp_path / "hang.tar.gz"
    place.write_text("kept")
    with pytest.raises(BadInput, match="already exists"):
        await write_bundle(cast("Any", Cluster()), "default", report(), place)
    assert place.read_text() == "kept"


async def test_what_is_written_unasked_lies_in_the_state_folder_and_only_the_newest_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "a4" / "hangs" / "unasked"
    told = await write_automatic_bundle(cast("Any", Cluster()), "default", report())
    assert told.bundle.startswith(f"{folder}/hung-")
    assert tarfile.is_tarfile(told.bundle)
    assert f"── Bundle: {told.bundle}" in format_report(told)
    assert report_to_json(told)["bundle"] == told.bundle
    assert folder.stat().st_mode & 0o077 == 0
    for number in range(MAX_UNASKED_BUNDLES + 3):
        old = folder / f"a-{number}.tar.gz"
        old.touch()
        os.utime(old, (number, number))
    later = replace(report(), job="later")
    refused = await write_automatic_bundle(cast("Any", Cluster()), "default", later)
    assert refused.bundle.startswith("not written: "), "there is no such job"
    cluster = Cluster("later")
    again = await write_automatic_bundle(cast("Any", cluster), "default", later)
    assert len(list(folder.iterdir())) == MAX_UNASKED_BUNDLES
    assert {Path(again.bundle).name, Path(told.bundle).name} < {each.name for each in folder.iterdir()}
