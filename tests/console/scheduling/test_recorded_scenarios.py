"""Our rules decide as the real Kueue did in random scenarios that `python -m tests.lab.scenarios` recorded."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.lab.scenarios.draw import FAILURES
from tests.lab.scenarios.replay import compare, read_record

RECORDS = json.loads(gzip.decompress((Path(__file__).parents[2] / "fixtures" / "kueue_scenarios.json.gz").read_bytes()))


@pytest.mark.parametrize("record", RECORDS, ids=lambda each: str(each["seed"]))
def test_the_same_start_and_are_evicted_in_the_same_order_on_the_same_nodes(record: dict[str, Any]) -> None:
    found = compare(read_record(record))
    assert found.admitted + found.evicted > 5
    assert found.differences == []


def test_nodes_fail_in_some_of_them() -> None:
    """A workload gets another node for the one that failed, or it goes, since there is none."""
    steps = (step for record in RECORDS for step in record["steps"] if step["event"] in FAILURES)
    assert sorted((step["event"], len(step["moves"][0])) for step in steps) == [
        ("gone", 1), ("not ready", 1), ("not ready", 2), ("tainted", 1), ("tainted", 1), ("tainted", 2),
    ]  # fmt: skip
