"""The two clusters that every test of this folder runs on: both are asked the same."""

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest

from console.session import Session
from tests.contract.client import Api
from tests.contract.cluster import Cluster, practice_cluster, real_cluster
from tests.contract.exceptions import EXCEPTIONS
from tests.contract.space import Space, open_session, open_space

PRACTICE, LAB = "practice", "lab"
NUMBERS = itertools.count(1)
passed: Counter[str] = Counter()
"""Tests that passed, by cluster."""
excepted: dict[str, str] = {}
"""Tests that one cluster may fail, and why."""


@pytest.fixture(scope="session", params=[PRACTICE, pytest.param(LAB, marks=pytest.mark.lab)])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The practice cluster, then the real control plane."""
    if request.param == LAB:
        yield real_cluster(request.getfixturevalue("lab"))
        return
    with practice_cluster(tmp_path_factory.mktemp("practice")) as started:
        yield started


@pytest.fixture
async def api(cluster: Cluster) -> AsyncIterator[Api]:
    async with Api.open(cluster.kubeconfig) as opened:
        yield opened


@pytest.fixture
async def reader(cluster: Cluster) -> AsyncIterator[Api]:
    """Somebody who may look at pods, nodes, jobs and events, and change nothing."""
    async with Api.open(cluster.reader_kubeconfig) as opened:
        yield opened


@pytest.fixture
async def space(api: Api, cluster: Cluster) -> AsyncIterator[Space]:
    """A namespace of the test's own, empty again afterwards."""
    cluster.check()
    async with open_space(api, cluster, f"contract-{next(NUMBERS)}") as made:
        yield made


@pytest.fixture
async def session(cluster: Cluster, space: Space) -> AsyncIterator[Session]:
    """The console's own door to the cluster, in the test's namespace."""
    async with open_session(cluster.kubeconfig, space) as opened:
        yield opened


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the gaps of one cluster, which must fail there, so that a gap that closes is noticed.

    Before a run selects the tests of one cluster, both must have the same ones.
    """
    asked: dict[str, set[str]] = {PRACTICE: set(), LAB: set()}
    for item in items:
        reason = EXCEPTIONS.get(item.name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
        side = side_of(item.nodeid)
        if side is not None:
            test, _, parameters = item.nodeid.rpartition("[")
            asked[side].add(f"{test}[{parameters.replace(side, '*', 1)}")
    alone = asked[PRACTICE] ^ asked[LAB]
    if alone and not any("::" in each for each in config.args):
        raise pytest.UsageError(f"These tests ask one cluster only: {', '.join(sorted(alone))}")


def side_of(name: str) -> str | None:
    """The cluster that a test of this folder asks, by its name."""
    if "tests/contract/" not in name or "[" not in name:
        return None
    parts = name.rpartition("[")[2].rstrip("]").split("-")
    return next((each for each in (PRACTICE, LAB) if each in parts), None)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    name = report.nodeid
    side = side_of(name)
    if report.when != "call" or side is None:
        return
    if hasattr(report, "wasxfail") and report.skipped:
        excepted[name.rpartition("::")[2]] = report.wasxfail
    elif report.passed:
        passed[side] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not passed:
        return
    counts = "; ".join(f"{side}: {passed[side]} passed" for side in (PRACTICE, LAB) if passed[side])
    terminalreporter.write_line(f"contract: {counts}; exceptions: {len(excepted)}")
    for name, reason in sorted(excepted.items()):
        terminalreporter.write_line(f"  {name}: {reason}")
