"""Our rules decide as the real Kueue did in random scenarios that `python -m tests.lab.scenarios` recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.scenarios.replay import compare, read_record

RECORDS = json.loads(gzip.decompress((Path(__file__).parents[2] / "fixtures" / "kueue_scenarios.json.gz").read_bytes()))


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: str(each["seed"]))
def test_the_same_start_and_are_evicted_in_the_same_order_on_the_same_nodes(record: dict[str, Any]) -> None:
    found = compare(read_record(record))
    assert found.admitted + found.evicted > 5
    assert found.differences == []
