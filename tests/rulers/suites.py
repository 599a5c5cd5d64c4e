"""The suites of other people that `make rulers` runs, and why a case of one differs or is not run."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.lab.build import KUBERNETES
from tests.rulers import helm, kubeconfig, kubectl, kueue_replay, openssh, reflector
from tests.rulers.go_cases import Calls, Module, Table, Unavailable, cases_of

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
_COALESCE = "pkg/chart/common/util/coalesce"
_HELM: tuple[Table | Calls, ...] = (
    *_STRVALS,
    *(
        Table(f"{_COALESCE}_test.go", each, ("c", "valsCopy"), "_, tt := range tests", "tt.tpl")
        for each in ("TestCoalesceValues", "TestMergeValues")
    ),
    Calls(
        f"{_COALESCE}.go",
        "func coalesce(printf printFn, ch chart.Charter, dest map[string]any, prefix string, merge bool) "
        "(map[string]any, error)",
    ),
    Calls(
        f"{_COALESCE}.go",
        "func coalesceTablesFullKey(printf printFn, dst, src map[string]any, prefix string, merge bool) map[string]any",
    ),
    Calls("pkg/chart/v2/loader/load.go", "func MergeMaps(a, b map[string]any) map[string]any"),
    Table("pkg/cli/values/options_test.go", "TestMergeValuesCLI", loop="_, tt := range tests", name="tt.name"),
)
_HELM_RUNS = "^(TestParse(Set|Literal)(NestedLevels)?|Test(Coalesce|Merge).*)$"
_CLIENTCMD = "tools/clientcmd"
_CLIENT_GO: tuple[Table | Calls, ...] = (
    Calls(
        f"{_CLIENTCMD}/loader.go",
        "func (rules *ClientConfigLoadingRules) Load() (*clientcmdapi.Config, error)",
        more='"files": rulerFiles(rules.ExplicitPath, rules.Precedence)',
    ),
    *(
        Calls(f"{_CLIENTCMD}/{file}.go", f"func {function}")
        for file, function in (
            ("validation", "ConfirmUsable(config clientcmdapi.Config, passedContextName string) error"),
            ("validation", "validateClusterInfo(clusterName string, clusterInfo clientcmdapi.Cluster) []error"),
            ("validation", "validateAuthInfo(authInfoName string, authInfo clientcmdapi.AuthInfo) []error"),
            (
                "validation",
                "validateContext(contextName string, context clientcmdapi.Context, config clientcmdapi.Config) []error",
            ),
            ("client_config", "(config *DirectClientConfig) ClientConfig() (*restclient.Config, error)"),
            ("client_config", "(config *DirectClientConfig) Namespace() (string, bool, error)"),
        )
    ),
    *(
        Table(f"{_CLIENTCMD}/merged_client_builder_test.go", each, loop="name, test := range testCases")
        for each in ("TestInClusterConfig", "TestInClusterConfigNamespace")
    ),
    Table(
        "plugin/pkg/client/auth/exec/exec_test.go", "TestRefreshCreds", loop="_, test := range tests", name="test.name"
    ),
)


class Ruler(NamedTuple):
    """A project whose tests are run, and who says where our answer to a case differs (empty: nowhere)."""

    project: str
    version: str
    cases: Callable[[], list[Case]]
    difference: Callable[[Case], str]
    defaults: Mapping[str, bool] = {}
    """Gates that its cases set, and what each is if nobody sets it."""


def _of_module(
    project: str, module: Module, difference: Callable[[Case], str], defaults: Mapping[str, bool] = MappingProxyType({})
) -> Ruler:
    return Ruler(project, module.version.removeprefix("v"), partial(cases_of, module), difference, defaults)


def _fault(case: Case) -> str:
    """How a program of theirs that ran with ours ended."""
    return str(case["fault"])


_GATES = {
    "PartialAdmission": True, "TASRecomputeAssignmentWithinSchedulingCycle": True, "TASProfileMixed": True,
    "TopologyAwareScheduling": True, "ElasticJobsViaWorkloadSlices": True, "TASFailedNodeReplacementFailFast": True,
    "TASHandleOverlappingFlavors": True, "ReclaimablePods": True,
}  # fmt: skip
_GATES_19 = _GATES | dict.fromkeys(kueue_replay.NEWLY_ON, True)
_CLIENT_GO_MODULE = Module("k8s.io/client-go", "v0.36.4", _CLIENT_GO, "^Test")
RULERS = (
    *(
        _of_module("Kueue", Module("sigs.k8s.io/kueue", version, _KUEUE, _KUEUE_RUNS), kueue_replay.difference, gates)
        for version, gates in (("v0.18.4", _GATES), ("v0.19.2", _GATES_19), ("v0.20.0", _GATES_19))
    ),
    _of_module("client-go", _CLIENT_GO_MODULE, kubeconfig.difference),
    Ruler("client-go", _CLIENT_GO_MODULE.version[1:], partial(reflector.cases, _CLIENT_GO_MODULE), _fault),
    _of_module("Helm", Module("helm.sh/helm/v4", "v4.2.3", _HELM, _HELM_RUNS), helm.difference),
    Ruler("OpenSSH", openssh.version(), openssh.cases, _fault),
    Ruler("Kubernetes", KUBERNETES.removeprefix("v"), kubectl.cases, _fault),
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


def results(projects: Collection[str] = ()) -> list[Result]:
    """Of all suites, or of those of some projects, with what was found of the others the last time."""
    kept = read(RESULTS.read_text()) if projects else []
    found: list[Result] = []
    for ruler in RULERS:
        if projects and ruler.project not in projects:
            found += [
                each
                for each in kept
                if (each.project, each.version) == (ruler.project, ruler.version) and each not in found
            ]
        else:
            found += _measured(ruler)
    return found


def _measured(ruler: Ruler) -> Iterable[Result]:
    version = ruler.version
    try:
        cases = ruler.cases()
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
            fault = ruler.difference(case)
            default += not gates
            same += not fault
            same_default += not (gates or fault)
            if fault:
                different[case["name"]] = (
                    case.get("why") or reason(suite, case["name"], gates) or f"NOT EXPLAINED: {fault}"
                )
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


_TWICE = "kubectl refuses what says a thing twice; of the two a4 takes the one that wins in client-go"
_MODE = "a4 gives no plugin the terminal, so its interactiveMode is not asked for"
REASONS = {
    ("validateAuthInfo", "InteractiveMode"): _MODE,
    ("validateAuthInfo", "ExecWithAuthProvider"): _TWICE,
    ("validateAuthInfo", "CertDataOverridesFiles"): _TWICE,
    ("validateAuthInfo", "MultipleMethods"): _TWICE,
    ("validateAuthInfo", "BadInfoButOkConfig"): _TWICE,
    ("validateAuthInfo", "ImpersonateEverything"): "a4 acts as another with one group and one value of an extra; more "
    "are refused in words",
    ("TestRefreshCreds", "mode-and-terminal"): "the terminal is the console's: a plugin gets none",
    ("ClientConfig", "TestProxyURL"): "a proxy without a scheme is taken as http, as in HTTPS_PROXY",
    ("ClientConfig", "TestCreateCleanWithPrefix 10"): "a server that a program gives where the kubeconfig has none",
    ("ClientConfig", "Test"): "an override of an entry of the kubeconfig, for which a4 has no option",
    ("TestScheduleForTAS", "Resource Transformation"): "transformations stand in Kueue's configuration, which few may "
    "read: not modelled",
    ("TestScheduleForTAS", "test error on patch"): "an error of the API server is injected: the decision is the same",
    ("TestSchedule", "error during admission"): "an error of the API server is injected: the decision is the same",
    ("TestFindTopologyAssignments", "single-Pod-owned"): "a Workload of one Pod keeps its node until the Pod is gone: "
    "whose a Workload is, is not part of our picture",
    ("TestAssignFlavors", "workload slice preemption"): "elastic jobs by workload slices are not modelled",
}
"""By suite (empty: any) and words of the name of the case."""

NOT_RUN = {
    "OpenSSH, the other scripts": "of keys, agents, configuration and programs on one machine: no connection of ours",
    "Kubernetes, `apps`, `debug`, `crd`, `kuberc` and others of `test/cmd`": "of kinds that a practice cluster has no "
    "business with, or of kubectl alone",
    "Kueue, `TestFindTopologyAssignmentsMultiLayerReplacement`, `TestEntryOrdering`, admission fair sharing, "
    "integration and end-to-end tests": "written for its own objects; not tried yet",
    "Helm, template functions (58)": "Helm itself draws the chart: a4 has none of its own",
    "client-go, `Validate`, `TestNamespacePrefixStrip`, overrides within a cluster, `TestPluginPolicy`, writing and "
    "locking of kubeconfigs": "a4 looks at the context that it uses, takes names alone, reads no kuberc and writes one "
    "entry of its own",
}
"""What else there is, and why it is not run."""


def written(results: Iterable[Result]) -> str:
    return json.dumps([each._asdict() for each in results], indent=1, ensure_ascii=False) + "\n"


def read(text: str) -> list[Result]:
    return [Result(**each) for each in json.loads(text)]
