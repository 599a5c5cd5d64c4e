"""Texts of values that hurt who reads them: nothing is run, and little memory is taken."""

import subprocess
import sys
import tracemalloc
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from console.launch.plan_as_text import PlanTexts
from tests.chart.plans import CATALOGUE, offline

MOST = 51 << 20
TEXTS = PlanTexts(CATALOGUE, offline().render)
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
DOCUMENTS: dict[str, str] = {
    "a billion laughs": BOMB,
    "an object of Python": "env: !!python/object/apply:os.system ['touch PWNT']\n",
    "a module of Python": "env: !!python/module:os x\n",
    "a name of Python": "env: {A: !!python/name:os.system ''}\n",
    "a tag of one's own": "env: !PWNT {A: x}\n",
    "nested lists": "env: " + "[" * 50_000 + "]" * 50_000,
    "nested maps": "env: " + "{a: " * 50_000 + "}" * 50_000,
    "nested blocks": "".join(f"{' ' * depth}a:\n" for depth in range(1400)),
    "merged maps": "env: &e {A: x}\nrecipe: {<<: *e}\n",
    "a map that holds itself": "env: &e\n  A: *e\n",
    "two documents": "gpus: 8\n---\ngpus: 16\n",
    "two megabytes": "env:\n  A: " + "x" * (2 << 20) + "\n",
    "NUL": "gpus: 8\x00\n",
    "dates": "env: {A: 2026-11-22, B: 2026-11-22T07:00:00Z}\nqueue: 2026-11-22\n",
    "a number of 100,000 digits": "gpus: " + "9" * 100_000 + "\n",
    "a number in sixties": "gpus: 190:20:30\n",
    "2,000 variables": "env:\n" + "".join(f"  V{number}: x\n" for number in range(2000)),
    "2,000 keys of its own": "".join(f"k{number}: x\n" for number in range(2000)),
    "quotes without end": 'queue: "' + "x" * 900_000,
    "anchors alone": "".join(f"k{number}: &a{number} x\n" for number in range(50_000)),
}
MANY = """
import resource
from tests.hostile.test_yaml import TEXTS
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
text = "env:\\n" + "".join(f"  V{number}: x\\n" for number in range(60_000))
draft = TEXTS.read_yaml("nccl-all-reduce", text)
print(len(draft.values["env"]), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def is_plain(value: Any) -> bool:
    """Whether it is made of maps, lists, texts, numbers and truths alone."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(is_plain, value))
    return value is None or isinstance(value, str | bool | int | float)


@pytest.mark.slow(reason="large inputs, whose time and memory are measured")
@pytest.mark.parametrize("kind", DOCUMENTS)
def test_a_text_of_values_runs_nothing_and_fills_no_memory(
    kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tracemalloc.start()
    try:
        draft = TEXTS.read_yaml("nccl-all-reduce", DOCUMENTS[kind])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert is_plain(draft.values)
    assert draft.problems or kind in {"2,000 variables", "dates"}
    assert sum(len(each.message) for each in draft.problems[:5]) < 5000
    assert peak < MOST
    assert not isinstance(draft.values.get("queue"), date | datetime)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow(reason="large inputs, whose time and memory are measured")
def test_60000_variables_take_less_than_300_mib() -> None:
    """In a process of its own: what measures memory inside of one takes a minute for them."""
    root = Path(__file__).parents[2]
    told = subprocess.run([sys.executable, "-c", MANY], cwd=root, capture_output=True, text=True, check=True)
    variables, kib = map(int, told.stdout.split())
    assert variables == 60_000
    assert kib < 300 << 10
