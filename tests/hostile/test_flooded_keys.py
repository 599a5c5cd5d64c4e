"""Keys of the console on a pseudo-terminal while pods print without end.

How soon under every flood, and how much memory: `python -m tests.bench.flooded_keys`.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING

import pytest

from tests.bench import flooded_keys
from tests.bench.floods import MEMORY, lying

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow(reason="waits until something that never ends is given up")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_a_key_is_answered_on_the_log_tab_of_a_job_that_prints_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared with the same console without the flood, as machines differ."""
    monkeypatch.setattr(flooded_keys, "KEYS", 5)
    with lying(tmp_path) as (kubeconfig, set_flood):
        before, _ = flooded_keys.measure("", kubeconfig, tmp_path, set_flood)
        during, memory = flooded_keys.measure("log: lines without end", kubeconfig, tmp_path, set_flood)
    assert statistics.median(during) <= 3 * statistics.median(before) + 0.1, (before, during)
    assert memory < MEMORY
