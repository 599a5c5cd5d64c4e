"""The suites of other people that `make rulers` runs, and why a case of one differs or is not run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.rulers import helm, kubeconfig, kueue_replay
from tests.rulers.go_cases import Module, Table, Unavailable, Wrapped, cases_of

Case = dict[str, Any]
RESULTS = Path(__file__).with_name("results.json")

_SCHEDULER, _CACHE = "pkg/scheduler", "pkg/cache/scheduler"
_KUEUE = (
    Table(f"{_SCHEDULER}/scheduler_test.go", "runScheduleTestCases", ("cfg",)),
    Table(f"{_SCHEDULER}/scheduler_tas_test.go", "TestScheduleForTAS", ("queues",)),
    Table(f"{_SCHEDULER}/scheduler_tas_test.go", "runTASScheduleTestCases", ("cfg",)),
    Table(f"{_CACHE}/tas_cache_test.go", "TestFindTopologyAssignments"),
    Table(f"{_SCHEDULER}/flavorassigner/flavorassigner_test.go", "TestAssignFlavors", ("resourceFlavors",)),
    Table(f"{_SCHEDULER}/preemption/preemption_test.go", "TestPreemption", ("flavors",)),
    Table(f"{_SCHEDULER}/preemption/preemption_fair_test.go", "TestFairPreemptions", ("flavors",)),
    Table(f"{_SCHEDULER}/preemption/preemption_hierarchical_test.go", "TestHierarchicalPreemptions", ("flavors",)),
    Table(f"{_CACHE}/fair_sharing_test.go", "TestDominantResourceShare"),
)
_KUEUE_RUNS = (
    "TestSchedule$|TestScheduleFor(FairSharing|TAS|TASPreemption|TASCohorts)$|TestScheduleConcurrentAdmission$|"
)
_KUEUE_RUNS += "|".join(f"{each.function}$" for each in _KUEUE if each.function.startswith("Test"))
_STRVALS = tuple(
    Table(f"pkg/strvals/{file}", function, loop=f"_, tt := range {rows}", name="tt.str", mark=mark)
    for file, function, rows, mark in (
        ("parser_test.go", "TestParseSet", "testsString", "/string"),
        ("parser_test.go", "TestParseSet", "tests", ""),
        ("parser_test.go", "TestParseSetNestedLevels", "tests", ""),
        ("literal_parser_test.go", "TestParseLiteral", "cases", ""),
        ("literal_parser_test.go", "TestParseLiteralNestedLevels", "tests", ""),
    )
)
_STRVALS_RUNS = "^(TestParseSet|TestParseSetNestedLevels|TestParseLiteral|TestParseLiteralNestedLevels)$"
_LOAD = Wrapped(
    "tools/clientcmd/loader.go",
    "func (rules *ClientConfigLoadingRules) Load()",
    "func (rules *ClientConfigLoadingRules) rulerLoad()",
    "clientcmd.go.txt",
)


class Ruler(NamedTuple):
    """A project whose tests are run, and who says where our answer to a case differs (empty: nowhere)."""

    project: str
    module: Module
    difference: Callable[[Case], str]
    defaults: Mapping[str, bool] = {}
    """Gates that its cases set, and what each is if nobody sets it."""


_GATES = {
    "PartialAdmission": True, "TASRecomputeAssignmentWithinSchedulingCycle": True, "TASProfileMixed": True,
    "TopologyAwareScheduling": True, "ElasticJobsViaWorkloadSlices": True, "TASFailedNodeReplacementFailFast": True,
    "TASHandleOverlappingFlavors": True, "ReclaimablePods": True,
}  # fmt: skip
RULERS = (
    *(
        Ruler("Kueue", Module("sigs.k8s.io/kueue", version, _KUEUE, _KUEUE_RUNS), kueue_replay.difference, _GATES)
        for version in ("v0.18.4", "v0.19.2", "v0.20.0")
    ),
    Ruler("client-go", Module("k8s.io/client-go", "v0.36.4", (_LOAD,), "^Test"), kubeconfig.difference),
    Ruler("Helm", Module("helm.sh/helm/v4", "v4.2.3", _STRVALS, _STRVALS_RUNS), helm.difference),
)


class Result(NamedTuple):
    """What became of a suite: how many cases are the same, and by name why one is `different`."""

    project: str
    version: str
    suite: str
    cases: int
    default: int  # cases without such a gate
    same: int
    same_default: int
    different: dict[str, str]
    unavailable: str = ""


def results() -> list[Result]:
    return [each for ruler in RULERS for each in _measured(ruler)]


def _measured(ruler: Ruler) -> Iterable[Result]:
    version = ruler.module.version.removeprefix("v")
    try:
        cases = cases_of(ruler.module)
    except Unavailable as error:
        yield Result(ruler.project, version, "all", 0, 0, 0, 0, {}, str(error))
        return
    by_suite: dict[str, list[Case]] = {}
    for case in cases:
        by_suite.setdefault(case["suite"], []).append(case)
    for suite, listed in by_suite.items():
        different, default, same, same_default = {}, 0, 0, 0
        for case in listed:
            gates = _other_gates(ruler, case)
            said = ruler.difference(case)
            default += not gates
            same += not said
            same_default += not (gates or said)
            if said:
                different[case["name"]] = reason(suite, case["name"], gates) or f"NOT EXPLAINED: {said}"
        yield Result(ruler.project, version, suite, len(listed), default, same, same_default, different)


def _other_gates(ruler: Ruler, case: Case) -> dict[str, bool]:
    given = case["case"].get("featureGates") or {}
    return {name: on for name, on in given.items() if on is not ruler.defaults.get(name, False)}


def reason(suite: str, name: str, gates: Mapping[str, bool]) -> str:
    """Why a case differs: what is said of its name, or the gate it sets; empty if nothing is."""
    for (where, words), why in REASONS.items():
        if where in {suite, ""} and words in name:
            return why
    if gates:
        return "; ".join(f"gate {each} {'on' if on else 'off'}, which is not its default" for each, on in gates.items())
    return ""


REASONS = {
    ("TestScheduleForTAS", "Resource Transformation"): "transformations stand in Kueue's configuration, which few may "
    "read: not modelled",
    ("TestScheduleForTAS", "test error on patch"): "an error of the API server is injected: the decision is the same",
    ("TestSchedule", "error during admission"): "an error of the API server is injected: the decision is the same",
    ("TestAssignFlavors", "workload slice preemption"): "elastic jobs by workload slices are not modelled",
}
"""By suite (empty: any) and words of the name of the case."""

NOT_RUN = {
    "Kueue, `TestFindTopologyAssignmentsMultiLayerReplacement`, `TestEntryOrdering`, admission fair sharing, "
    "integration and end-to-end tests": "written for its own objects; not tried yet",
    "Helm, values merging (73) and template functions (58)": "not tried yet",
    "client-go, overrides and validation of clientcmd, exec credentials": "not tried yet",
    "OpenSSH, regress over `a4 proxy`": "not tried yet",
    "Kubernetes, `test/cmd` against `a4 practice` (1,626 asserts)": "not tried yet",
}
"""What else there is, and why it is not run."""


def written(results: Iterable[Result]) -> str:
    return json.dumps([each._asdict() for each in results], indent=1, ensure_ascii=False) + "\n"


def read(text: str) -> list[Result]:
    return [Result(**each) for each in json.loads(text)]
