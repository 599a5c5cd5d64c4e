"""Parses a scenario of queues, machines and jobs from YAML; errors name their lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, convert

if TYPE_CHECKING:
    import yaml

NODE_GPUS = 8  # of an A4 machine
MAX_DEPTH = 8  # levels of lists and maps within each other; a scenario has four
MAX_SHOWN = 80  # characters of what a person wrote, in a sentence about it
MAX_JOBS = 10_000  # of a scenario
MAX_NODES = 20_000
_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?[smhd])+")
_VALID_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_REQUIRED = object()


class FlavorPlan(Struct, frozen=True):
    name: str
    nodes: int
    nodes_per_block: int


class CohortPlan(Struct, frozen=True):
    name: str
    parent: str
    quota: dict[str, int]


class QueuePlan(Struct, frozen=True):
    """A ClusterQueue of a scenario, with its GPUs by flavor in the order of trying."""

    name: str
    quota: dict[str, int]
    cohort: str
    borrowing_limit: dict[str, int]
    lending_limit: dict[str, int]
    strategy: str
    within_queue: str
    reclaim: str
    borrow_within: str
    weight: float


class JobPlan(Struct, frozen=True):
    name: str
    queue: str
    gpus: int
    runs: float  # seconds
    spread: float
    priority: int
    at: float
    count: int
    every: float
    random: bool
    checkpoint_every: float
    topology: str


class Scenario(Struct, frozen=True):
    flavors: tuple[FlavorPlan, ...]
    queues: tuple[QueuePlan, ...]
    jobs: tuple[JobPlan, ...]
    cohorts: tuple[CohortPlan, ...]
    until: float
    fair_sharing: bool


class _Key(NamedTuple):
    """A key of the scenario and the parser of its value, which raises ValueError for an invalid one."""

    field: str
    allowed: str
    read: Callable[[str], Any] | Mapping[str, _Key]  # of a map in a list: its keys
    default: Any = _REQUIRED
    is_map_by_flavor: bool = False  # a map from flavors to such values


def job_names(name: str, count: int) -> list[str]:
    """The names of equal jobs, numbered if there are several."""
    return [f"{name}-{number + 1}" for number in range(count)] if count > 1 else [name]


def parse_duration(text: str) -> float:
    if not _DURATION.fullmatch(text):
        raise ValueError(text)
    return sum(float(amount) * _SECONDS_PER_UNIT[unit] for amount, unit in re.findall(r"([\d.]+)([smhd])", text))


def format_duration(seconds: float) -> str:
    """A duration as a scenario has it, in its two largest units: "41s", "2m5s", "3h", "1d12h"."""
    whole = int(seconds)
    units = [(unit, each) for unit, each in reversed(_SECONDS_PER_UNIT.items()) if each <= whole] or [("s", 1)]
    (largest, size), *below = units
    rest = whole % size // below[0][1] if below else 0
    return f"{whole // size}{largest}" + (f"{rest}{below[0][0]}" if rest else "")


def _whole_number_parser(least: int, max_value: int) -> Callable[[str], int]:
    def read_whole_number(text: str) -> int:
        number = int(text)
        if not least <= number <= max_value:
            raise ValueError(text)
        return number

    return read_whole_number


def _number_parser(max_value: float) -> Callable[[str], float]:
    def read_number(text: str) -> float:
        if not 0 <= float(text) <= max_value:
            raise ValueError(text)
        return float(text)

    return read_number


def _choice_parser(*choices: str) -> tuple[str, Callable[[str], str]]:
    def read_choice(text: str) -> str:
        if text not in choices:
            raise ValueError(text)
        return text

    return f"one of {', '.join(choices)}", read_choice


def _parse_name(text: str) -> str:
    if not _VALID_NAME.fullmatch(text):
        raise ValueError(text)
    return text


def _parse_after(text: str) -> float:
    if not (seconds := parse_duration(text)):
        raise ValueError(text)
    return seconds


def _parse_gpus(text: str) -> int:
    gpus = int(text)
    if gpus < 1 or (gpus > NODE_GPUS and gpus % NODE_GPUS):
        raise ValueError(text)
    return gpus


_NAME_KEY = _Key("name", "a name of letters, digits, dots and dashes", _parse_name)
_GPUS_HELP = "GPUs by flavor, as in {a4: 64}"
_PERIOD = "a duration as in 90s, 30m, 6h or 1d12h"
_CHOICE_KEYS = {
    "queueingStrategy": _choice_parser("BestEffortFIFO", "StrictFIFO"),
    "withinClusterQueue": _choice_parser("Never", "LowerPriority", "LowerOrNewerEqualPriority"),
    "reclaimWithinCohort": _choice_parser("Never", "LowerPriority", "Any"),
    "borrowWithinCohort": _choice_parser("Never", "LowerPriority"),
}
_FLAVOR_KEYS = {
    "name": _NAME_KEY,
    "nodes": _Key(
        "nodes", f"a whole number of machines of {NODE_GPUS} GPUs, 1 to {MAX_NODES}", _whole_number_parser(1, MAX_NODES)
    ),
    "nodesPerBlock": _Key(
        "nodes_per_block", f"a whole number, 1 to {MAX_NODES}", _whole_number_parser(1, MAX_NODES), MAX_NODES
    ),
}
_QUEUE_KEYS = {
    "name": _NAME_KEY,
    "quota": _Key("quota", _GPUS_HELP, _whole_number_parser(0, 1_000_000), is_map_by_flavor=True),
    "cohort": _Key("cohort", _NAME_KEY.allowed, _parse_name, ""),
    "borrowingLimit": _Key(
        "borrowing_limit", _GPUS_HELP, _whole_number_parser(0, 1_000_000), {}, is_map_by_flavor=True
    ),
    "lendingLimit": _Key("lending_limit", _GPUS_HELP, _whole_number_parser(0, 1_000_000), {}, is_map_by_flavor=True),
    "queueingStrategy": _Key("strategy", *_CHOICE_KEYS["queueingStrategy"], "BestEffortFIFO"),
    "withinClusterQueue": _Key("within_queue", *_CHOICE_KEYS["withinClusterQueue"], "Never"),
    "reclaimWithinCohort": _Key("reclaim", *_CHOICE_KEYS["reclaimWithinCohort"], "Never"),
    "borrowWithinCohort": _Key("borrow_within", *_CHOICE_KEYS["borrowWithinCohort"], "Never"),
    "weight": _Key("weight", "a number, 0 to 100", _number_parser(100), 1.0),
}
_COHORT_KEYS = {
    "name": _NAME_KEY,
    "parent": _Key("parent", _NAME_KEY.allowed, _parse_name, ""),
    "quota": _Key("quota", _GPUS_HELP, _whole_number_parser(0, 1_000_000), {}, is_map_by_flavor=True),
}
_JOB_KEYS = {
    "name": _NAME_KEY,
    "queue": _Key("queue", "the name of a queue", _parse_name),
    "gpus": _Key("gpus", f"1 to {NODE_GPUS}, or a multiple of {NODE_GPUS}", _parse_gpus),
    "runs": _Key("runs", _PERIOD, _parse_after),
    "spread": _Key("spread", "0 (always as long) to 2, the deviation of the logarithm", _number_parser(2), 0.0),
    "priority": _Key("priority", "a whole number", _whole_number_parser(-1_000_000_000, 1_000_000_000), 0),
    "at": _Key("at", _PERIOD, parse_duration, 0.0),
    "count": _Key("count", f"a whole number, 1 to {MAX_JOBS}", _whole_number_parser(1, MAX_JOBS), 1),
    "every": _Key("every", _PERIOD, parse_duration, 0.0),
    "arrivals": _Key("random", "one of regular, random", lambda text: {"regular": False, "random": True}[text], False),
    "checkpointEvery": _Key("checkpoint_every", _PERIOD, _parse_after, 0.0),
    "topology": _Key("topology", *_choice_parser("none", "preferred", "required"), "none"),
}
_SCENARIO_KEYS = {
    "flavors": _Key("flavors", "a list of flavors", _FLAVOR_KEYS),
    "queues": _Key("queues", "a list of queues", _QUEUE_KEYS),
    "jobs": _Key("jobs", "a list of jobs", _JOB_KEYS),
    "cohorts": _Key("cohorts", "a list of cohorts", _COHORT_KEYS, ()),
    "until": _Key("until", _PERIOD, _parse_after, 0.0),
    "fairSharing": _Key("fair_sharing", "true or false", lambda text: {"true": True, "false": False}[text], False),
}


class ScenarioError(ValueError):
    """Raised for an invalid scenario: a sentence a line, with the place and what is allowed there."""


def read_scenario(text: str) -> Scenario:
    """Parse a scenario; ScenarioError lists every invalid line and what is allowed there."""
    root = _compose_nodes(text)
    reader = _ScenarioReader()
    if root is None:
        raise ScenarioError("The scenario is empty.")
    found = reader.read_map(root, _SCENARIO_KEYS, "the scenario")
    if not reader.problems:
        reader.check_names(found)
    if reader.problems:
        raise ScenarioError("\n".join(text for _, text in sorted(reader.problems)))
    return convert(found, Scenario)


def _compose_nodes(text: str) -> yaml.Node | None:
    """The root node of a YAML text, None if empty. ScenarioError for deep nesting, and aliases, which may expand."""
    import yaml  # 40 ms, for those who read some

    class PlainLoader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            if isinstance(event, yaml.AliasEvent):
                raise _error_at("references (&name, *name) are not allowed", event.start_mark)
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise _error_at("it is nested too deep", event.start_mark)
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    if found := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise ScenarioError(f"Line {line}: the character U+{ord(found[0]):04X} is not allowed.")
    try:
        return yaml.compose(text, Loader=PlainLoader)
    except yaml.MarkedYAMLError as error:
        raise _error_at(f"{error.problem}", error.problem_mark) from error


def _error_at(problem: str, mark: Any) -> ScenarioError:
    return ScenarioError(f"Line {mark.line + 1 if mark else 1}: {problem}.")


def _quote_node(node: yaml.Node) -> str:
    """A node as words of a sentence: its text, shortened and fit for a terminal, else its kind."""
    if not isinstance(node.value, str):
        return "(a list or map)"
    more = "…" if len(node.value) > MAX_SHOWN else ""
    return (
        "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in node.value[:MAX_SHOWN]) + more
    )


class _ScenarioReader:
    def __init__(self) -> None:
        self.problems: list[tuple[int, str]] = []  # lines, and what is wrong there
        self._lines: dict[tuple[str, int, str], int] = {}  # where a key of the nth map of a list stands

    def read_map(
        self, node: yaml.Node, keys: Mapping[str, _Key], what: str, scenario_path: tuple[str, int] = ("", 0)
    ) -> Any:
        import yaml

        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            self.problems.append((line, f"Line {line}: {what} has to be a map; it has {', '.join(keys)}."))
            return {}
        found: dict[str, Any] = {each.field: each.default for each in keys.values()}
        seen: set[str] = set()
        for name, value in node.value:
            at, word = name.start_mark.line + 1, _quote_node(name)
            self._lines[(*scenario_path, word)] = at
            key = keys.get(word)
            if key is None:
                self.problems.append((at, f"Line {at}: {what} has no {word}; it has {', '.join(keys)}."))
            elif word in seen:
                self.problems.append((at, f"Line {at}: {word} stands there twice."))
            else:
                found[key.field] = self._read_value(value, key, word)
            seen.add(word)
        self.problems += [
            (line, f"Line {line}: {what} needs {name}: {key.allowed}.")
            for name, key in keys.items()
            if found[key.field] is _REQUIRED and name not in seen
        ]
        return found

    def _read_value(self, node: yaml.Node, key: _Key, name: str) -> Any:
        import yaml

        if not callable(key.read):
            if not isinstance(node, yaml.SequenceNode) or not node.value:
                return self._report_wrong_value(node, name, key)
            return [
                self.read_map(each, key.read, f"an entry of {name}", (name, at)) for at, each in enumerate(node.value)
            ]
        if key.is_map_by_flavor:
            if not isinstance(node, yaml.MappingNode) or (not node.value and key.default is _REQUIRED):
                return self._report_wrong_value(node, name, key)
            one = key._replace(is_map_by_flavor=False, allowed="a whole number of GPUs, not below 0")
            return {
                _quote_node(each): self._read_value(value, one, f"{name} of {_quote_node(each)}")
                for each, value in node.value
            }
        if not isinstance(node, yaml.ScalarNode):
            return self._report_wrong_value(node, name, key)
        try:
            return key.read(node.value)
        except (ValueError, KeyError, OverflowError):
            return self._report_wrong_value(node, name, key)

    def _report_wrong_value(self, node: yaml.Node, name: str, key: _Key) -> Any:
        import yaml

        line = node.start_mark.line + 1
        instead = f", not {_quote_node(node)}" if isinstance(node, yaml.ScalarNode) and node.value else ""
        self.problems.append((line, f"Line {line}: {name} has to be {key.allowed}{instead}."))
        return key.default

    def check_names(self, found: Mapping[str, Any]) -> None:
        """Report unknown and duplicate names."""
        flavors, queues = ([each["name"] for each in found[kind]] for kind in ("flavors", "queues"))
        for kind in ("flavors", "queues", "cohorts"):
            names = [each["name"] for each in found[kind]]
            for at, name in enumerate(names):
                if name in names[:at]:
                    self._add_problem(
                        (kind, at, "name"), f"there is a {name} among the {kind} already; names have to differ"
                    )
        cohorts = {each["name"] for each in found["cohorts"]}
        for at, each in enumerate(found["cohorts"]):
            self._read_flavors(("cohorts", at), each, {"quota": flavors})
            if each["parent"] and each["parent"] not in cohorts:
                self._report_unknown(("cohorts", at, "parent"), "cohort", each["parent"], sorted(cohorts))
        for at, each in enumerate(found["queues"]):
            mine = list(each["quota"])
            self._read_flavors(("queues", at), each, {"quota": flavors, "borrowing_limit": mine, "lending_limit": mine})
        self._check_jobs(found["jobs"], queues)

    def _check_jobs(self, jobs: Sequence[Mapping[str, Any]], queues: Sequence[str]) -> None:
        known: set[str] = set()
        for at, each in enumerate(jobs):
            name, count = each["name"], each["count"]
            if each["queue"] not in queues:
                self._report_unknown(("jobs", at, "queue"), "queue", each["queue"], queues)
            if count > 1 and not each["every"]:
                self._add_problem(("jobs", at, "count"), f"{name} needs every: {_PERIOD}, from one arrival to the next")
            mine = job_names(name, count)
            if both := known & set(mine):
                self._add_problem(("jobs", at, "name"), f"{min(both)} is the name of two jobs; names have to differ")
            known.update(mine)
        if len(known) > MAX_JOBS:
            self._add_problem(("", 0, "jobs"), f"there are {len(known)} jobs in all; {MAX_JOBS} are allowed")

    def _read_flavors(
        self, scenario_path: tuple[str, int], entry: Mapping[str, Any], allowed: Mapping[str, Sequence[str]]
    ) -> None:
        keys = _QUEUE_KEYS if scenario_path[0] == "queues" else _COHORT_KEYS
        for field, known in allowed.items():
            key = next(name for name, each in keys.items() if each.field == field)
            for flavor in entry[field]:
                if flavor not in known:
                    self._report_unknown((*scenario_path, key), "flavor", flavor, known)

    def _report_unknown(self, scenario_path: tuple[str, int, str], kind: str, name: str, names: Iterable[str]) -> None:
        self._add_problem(scenario_path, f"there is no {kind} {name} here; allowed: {', '.join(names) or 'none'}")

    def _add_problem(self, scenario_path: tuple[str, int, str], message: str) -> None:
        line = self._lines[scenario_path]
        self.problems.append((line, f"Line {line}: {message}."))
