"""What a check says: a verdict; how two halves of one become one; and what an error means for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.errors import ApiDisabled, ConsoleError, NotAllowed
from console.models.check import WORST_FIRST, Mend, Repair, Result
from console.preflight.wish import Need

if TYPE_CHECKING:
    from collections.abc import Awaitable

_UNSEEN = {Result.NOT_ALLOWED: "Not allowed to look", Result.COULD_NOT: "Not seen"}
"""How a half that learnt nothing is told."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a check, or of one half of it."""

    result: Result
    evidence: str
    reason: str = ""
    fix: str = ""
    """Empty: the check's own."""
    command: str = ""
    repair: Repair | None = None


def ok(evidence: str) -> Verdict:
    """All is well."""
    return Verdict(Result.OK, evidence)


def warn(evidence: str, reason: str = "", fix: str = "", *, command: str = "", repair: Repair | None = None) -> Verdict:
    """It may do without."""
    return Verdict(Result.WARN, evidence, reason, fix, command, repair)


def fail(evidence: str, reason: str = "", fix: str = "", *, command: str = "", repair: Repair | None = None) -> Verdict:
    """It will not do."""
    return Verdict(Result.FAIL, evidence, reason, fix, command, repair)


def skip(why: str) -> Verdict:
    """It does not apply."""
    return Verdict(Result.NOT_APPLICABLE, "Not looked at.", why)


def lacking(
    need: Need, evidence: str, reason: str = "", fix: str = "", *, command: str = "", repair: Repair | None = None
) -> Verdict:
    """Something is missing: that fails the launch that needs it, and is told where no launch was chosen."""
    result = Result.FAIL if need is Need.YES else Result.WARN
    return Verdict(result, evidence, reason, fix, command, repair)


async def seen(half: Awaitable[Verdict]) -> Verdict:
    """A half of a check; what kept it from looking is a verdict too."""
    try:
        return await half
    except ConsoleError as error:
        return blind(error)


def blind(error: ConsoleError) -> Verdict:
    """What an error says of a check that met it: nothing is known, and why."""
    if isinstance(error, ApiDisabled):
        return Verdict(Result.COULD_NOT, "Google was not able to answer.", error.message, error.hint)
    result = Result.NOT_ALLOWED if isinstance(error, NotAllowed) else Result.COULD_NOT
    return Verdict(result, "Nothing was seen.", error.message, error.hint)


def enable(project: str, *services: str) -> Repair:
    """The repair that enables services of Google's."""
    return Repair(
        Mend.SERVICE,
        (project, *services),
        f"Enable {', '.join(services)} in project {project}",
        ("Services may cost money once they are used.",),
    )


def both(*halves: Verdict, sure: bool = False) -> Verdict:
    """One verdict of several: the worst that was seen; a half that could not look leaves the others standing.

    `sure`: the check is not passed before every half was seen.
    """
    looked = [each for each in halves if each.result not in _UNSEEN]
    unseen = [each for each in halves if each.result in _UNSEEN]
    found = min(looked or unseen, key=lambda each: WORST_FIRST.index(each.result))
    if sure and unseen and found.result is Result.OK:
        found = unseen[0]
    others = [each for each in halves if each is not found]
    told = [f"{_UNSEEN[each.result]}: {each.reason}" if each.result in _UNSEEN else each.evidence for each in others]
    head = found.evidence if found.result not in _UNSEEN or not others else ""
    mending = [found, *(each for each in others if each.result in {Result.FAIL, Result.WARN})]
    return replace(
        found,
        evidence=" ".join(filter(None, (head, *told))),
        fix=next((each.fix for each in mending if each.fix), ""),
        command=next((each.command for each in mending if each.command), ""),
        repair=next((each.repair for each in mending if each.repair), None),
    )
