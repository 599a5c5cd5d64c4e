"""Whether a case ended as expected, in words for the table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.rehearsal.calls import problems_of_calls
from tests.rehearsal.cases import FAILS, STAYS, SUCCEEDS, Case, Expected

_FAILED = re.compile(r"^step \d+ ([-\w]+): failed with exit code (\d+)$", re.MULTILINE)
_LEFT = re.compile(r"/\w+/sync_flags_[^/]+|.*\.a4-lock[^/]*")
_BEGUN = re.compile(r"^step \d+ ([-\w]+): run$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table."""

    case: Case
    seen: str
    problems: list[str] = field(default_factory=list)
    manifests: list[dict[str, Any]] = field(default_factory=list)
    logs: list[list[str]] = field(default_factory=list)
    """Of each attempt the log of each pod."""

    @property
    def good(self) -> bool:
        return not self.problems


def judged(case: Case, seen: dict[str, Any], manifests: list[list[dict[str, Any]]]) -> Row:
    """Compare what was seen of a case with what is expected of it."""
    told, problems = [], []
    for number, (expected, attempt) in enumerate(zip(case.expected, seen["attempts"], strict=True)):
        told.append(outcome(attempt))
        problems += problems_of(case, expected, attempt)
        if expected.outcome != FAILS and not problems:
            problems += problems_of_calls(case, attempt, first=number == 0)
    if case.expected[-1].outcome == SUCCEEDS:
        problems += [f"{path} is left behind" for path in seen["shared"] if re.fullmatch(_LEFT, path)]
    return Row(case, ", then ".join(told), problems, manifests[0], [attempt["logs"] for attempt in seen["attempts"]])


def outcome(attempt: dict[str, Any]) -> str:
    """How an attempt ended, in a few words."""
    if attempt["stalled"]:
        return "stalls: " + "; ".join(f"pod {index} {where(attempt, index)}" for index in attempt["stalled"])
    if attempt["kept"]:
        return STAYS
    if any(attempt["codes"]):
        failed = [f"step {found[1]}, code {found[2]}" for log in attempt["logs"] for found in _FAILED.finditer(log)]
        return f"{FAILS} ({failed[0] if failed else 'codes ' + ', '.join(map(str, attempt['codes']))})"
    return SUCCEEDS


def where(attempt: dict[str, Any], index: int) -> str:
    """In which step a pod stands still."""
    log = attempt["logs"][min(index, len(attempt["logs"]) - 1)]
    begun = _BEGUN.findall(log)
    last = log.strip().splitlines()[-1:] or ["nothing"]
    return f"in step {begun[-1]}, last line {last[0]!r}" if begun else "before its first step"


def problems_of(case: Case, expected: Expected, attempt: dict[str, Any]) -> list[str]:
    """What differs, a sentence each."""
    found = []
    seen = outcome(attempt)
    if seen.split(" ")[0] != expected.outcome:
        found.append(f"expected that it {expected.outcome}")
        found += tails(attempt)
    for line in expected.says:
        if not any(re.search(line, log, re.MULTILINE) for log in attempt["logs"]):
            found.append(f"no pod prints {line!r}")
            found += tails(attempt)
    if attempt["killed"]:
        found.append(f"pods {attempt['killed']} did not end when they were told to")
    found += attempt["shells"]
    found += [f"{path} holds a secret and is open to all" for path in attempt["open_secrets"]]
    return list(dict.fromkeys(found))


def tails(attempt: dict[str, Any]) -> list[str]:
    """The last lines of each pod."""
    return [
        f"  pod log {number}: {line}"
        for number, log in enumerate(attempt["logs"])
        for line in log.strip().splitlines()[-3:]
    ]
