"""Keys of the console on a pseudo-terminal while pods print without end; speeds: `tests.bench.flooded_keys`."""

import statistics
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.bench.flooded_keys import measure
from tests.bench.floods import MEMORY, lying


@pytest.mark.slow(reason="waits until something that never ends is given up")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of a process from /proc")
def test_a_key_is_answered_on_the_log_tab_of_a_job_that_prints_without_end(tmp_path: Path) -> None:
    """Compared with the same console without the flood, as machines differ."""
    with lying(tmp_path) as (kubeconfig, set_flood):
        look = partial(measure, kubeconfig=kubeconfig, folder=tmp_path, set_flood=set_flood, keys=5)
        before, _ = look("", first=0.5)
        during, memory = look("log: lines without end", first=1.5)
    assert statistics.median(during) <= 5 * statistics.median(before) + 0.3, (before, during)
    assert memory < MEMORY
