"""Listings of checkpoints and lines of Helm."""

from pathlib import Path
from typing import Any

from console.errors import BadInput
from console.launch.helm_command import parse_helm_line
from console.launch.helm_set_parser import SetValues
from tests.console.checkpoints.listings import survey_listing
from tests.corpus.verdict import Case, Verdict

Rows = list[tuple[str, int | None, str, str]]
# beginning of the file's name: end of the path, step and state of each checkpoint, and a word of what is wrong
CHECKPOINTS: dict[str, Rows] = {
    "p01": [("iter_0000050", 50, "complete", ""), ("iter_0000050-hf", 50, "complete", "")],
    "p03": [("checkpoint-100", 100, "incomplete", "bf16_zero_pp_rank_5_mp_rank_00_optim_states.pt is missing")],
    "p05": [("iter_0000500", 500, "incomplete", "mp_rank_01_000")],
    "p07": [("consumed_samples=51200.0-last", 199, "incomplete", "-unfinished")],
    "p09": [("100", 100, "complete", ""), ("150", 150, "incomplete", "commit_success.txt")],
    "p11": [],
    "p12": [("release", None, "incomplete", "mp_rank_00_002")],
}
OTHERWISE: dict[str, Rows] = {"p11": [("10", 10, "cannot tell", ""), ("10", 10, "complete", "")]}
# beginning of the file's name: values by path, or a word of the refusal
HELM: dict[str, dict[str, Any] | str] = {
    "h01": {"a": True, "b": True, "c": False, "d": None},
    "h03": "list",
    "h05": {"a": [""]},
}


def helm(folder: Path) -> list[Case]:
    return [_helm_case(path) for path in sorted(folder.glob("h*"))]


def _helm_case(path: Path) -> Case:
    wanted: Any = HELM.get(path.name[:3])
    try:
        values = SetValues()
        for option, word in parse_helm_line(path.read_text(), {}).settings:
            values.add(option, word.text, word.unknown_variables)
        found: Any = values.root
    except BadInput as refused:
        found = str(refused)
    right = repr(found) == repr(wanted) if isinstance(wanted, dict) else isinstance(found, str) and wanted in found
    return Case(path.name, Verdict.RIGHT if right else Verdict.WRONG, "" if right else repr(found))


def checkpoints(folder: Path) -> list[Case]:
    return [_checkpoint_case(path) for path in sorted(folder.glob("p*.files"))]


def _checkpoint_case(path: Path) -> Case:
    found = survey_listing(path.read_text())
    wanted = CHECKPOINTS.get(path.name[:3])
    seen = [(each.path, each.step, each.state.value, "; ".join(each.problems)) for each in found.checkpoints]
    allowed = [wanted, *([each] for each in OTHERWISE.get(path.name[:3], ()))]
    right = any(rows is not None and _are_same(rows, seen) for rows in allowed)
    verdict = Verdict.RIGHT if right else Verdict.WRONG if seen else Verdict.NOTHING
    return Case(path.name, verdict, "" if right else repr(seen)[:400])


def _are_same(wanted: Rows, seen: Rows) -> bool:
    return len(wanted) == len(seen) and all(
        one[0].endswith(end) and one[1:3] == (step, state) and word in one[3]
        for (end, step, state, word), one in zip(wanted, sorted(seen), strict=True)
    )
