"""A test takes at most a second, or carries the mark `slow` with the reason; one that does neither fails the run."""

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

LIMIT = 1.0
"""Seconds that the call of a test may take where a core is free for it; on a busier or slower machine more."""
USUAL = 0.045
"""Seconds of `arithmetic` on the machine of the limit."""
EXEMPT = {"slow", "lab", "programs"}
QUEUED = Path("/proc/thread-self/schedstat")


def seconds_queued() -> float:
    """Seconds for which this thread could have run and had no core; 0 where the kernel does not say."""
    try:
        return int(QUEUED.read_text().split()[1]) / 1e9
    except OSError:
        return 0.0


def arithmetic() -> float:
    """Processor seconds of the same work on every machine, the least of three times."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        sum(number * number for number in range(1_000_000))
        seconds.append(time.process_time() - began)
    return min(seconds)


class Slowness:
    """Notes which tests took too long, and at the end times them once more, alone: the shorter time counts."""

    def __init__(self, config: pytest.Config) -> None:
        self.is_worker = hasattr(config, "workerinput")
        self.took: dict[str, float] = {}
        self.too_slow: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """The first rows of a table lose the mark before tests are selected by it."""
        rows: Counter[str] = Counter()
        for item in items:
            if (mark := item.get_closest_marker("slow")) is None:
                continue
            if not mark.kwargs.get("reason"):
                raise pytest.UsageError(f'{item.nodeid}: pytest.mark.slow(reason="…") has to say why it is slow')
            table = item.nodeid.partition("[")[0]
            rows[table] += 1
            if rows[table] <= mark.kwargs.get("fast_rows", 0):
                item.own_markers = [each for each in item.own_markers if each.name != "slow"]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        began, queued = time.monotonic(), seconds_queued()
        try:
            return (yield)
        finally:
            took = time.monotonic() - began - (seconds_queued() - queued)
            if took > LIMIT and not any(mark.name in EXEMPT for mark in item.iter_markers()):
                item.user_properties.append(("seconds", took))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed and not self.is_worker:
            for name, value in report.user_properties:
                if name == "seconds" and isinstance(value, float):
                    self.took[report.nodeid] = value

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.took or os.environ.get("A4_TIMES_ALONE"):
            return
        limit = LIMIT * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1)) * max(1.0, arithmetic() / USUAL)
        again = timed_alone(list(self.took))
        least = {name: min(took, again.get(name, took)) for name, took in self.took.items()}
        self.too_slow = {name: took for name, took in least.items() if took > limit}
        if self.too_slow and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for name, took in self.too_slow.items():
            why = f'takes {took:.1f} s; over {LIMIT:g} s it carries @pytest.mark.slow(reason="…")'
            terminalreporter.write_line(f"TOO SLOW {name} {why}", red=True)


def timed_alone(names: list[str]) -> dict[str, float]:
    """Seconds that each of these tests takes when nothing of the run is beside it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = [
            "-q",
            "-n",
            "0",
            "-p",
            "no:cacheprovider",
            "-o",
            "junit_duration_report=call",
            f"--junitxml={report}",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *names],
            env={**os.environ, "A4_TIMES_ALONE": "1"}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not report.exists():
            raise pytest.UsageError(f"The slow tests could not be timed alone: {done.stdout[-1000:]}{done.stderr}")
        cases = list(ElementTree.parse(report).iter("testcase"))
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 0))
        for case in cases
    }
