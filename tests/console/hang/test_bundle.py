"""The archive of a hang: what pods print and answer is in it, and no secret of theirs."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any, cast

import pytest

from console.errors import BadInput, NotAllowed
from console.hang.bundle import write_bundle
from console.hang.flight_recorder import Operation, RankDump
from console.hang.nccl_ras import RasReport
from console.hang.report import HangReport
from tests.console.hang.test_inspection import Cluster

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "hf_" + "Ab3" * 11


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> Any:
        raise NotAllowed("You may not read logs.")

    monkeypatch.setattr("console.logs.container_log.follow_log", refused)
    monkeypatch.setattr(
        Cluster, "current_connection", cast("Any", type("Connection", (), {"client": None})), raising=False
    )


def report() -> HangReport:
    dump = RankDump(0, operations=[Operation("0", 1, f"nccl:{TOKEN}")])
    return HangReport("hung", (), (), RasReport(text=f"NCCL version {TOKEN}"), dumps=(dump,))


async def test_secrets_are_redacted_in_every_file(tmp_path: Path) -> None:
    place = tmp_path / "hang.tar.gz"
    texts = {
        "report.txt": f"python train.py --token={TOKEN}\nit is in all_reduce",
        "report.json": {
            "processes": [{"command": f"HF_TOKEN={TOKEN} python train.py", "api_key": "pumpernickel", "rank": 9}]
        },
    }
    assert await write_bundle(cast("Any", Cluster()), "default", report(), texts, place) == place.stat().st_size
    assert place.stat().st_mode & 0o777 == 0o600
    with tarfile.open(place) as archive:
        files = {each.name.rpartition("/")[2]: cast("io.BytesIO", archive.extractfile(each)).read() for each in archive}
    whole = b"".join(files.values())
    assert TOKEN.encode() not in whole
    assert b"pumpernickel" not in whole
    assert b"it is in all_reduce" in files["report.txt"]
    assert json.loads(files["report.json"])["processes"][0]["rank"] == 9
    assert json.loads(files["recorder.json"])[0]["operations"][0]["seq"] == 1
    assert "its log was not read to its end: You may not read logs." in files["nccl-lines.txt"].decode()


async def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    place = tmp_path / "hang.tar.gz"
    place.write_text("kept")
    with pytest.raises(BadInput, match="already exists"):
        await write_bundle(cast("Any", Cluster()), "default", report(), {}, place)
    assert place.read_text() == "kept"
