"""What stands beside the lines of a step: progress bars, skipped steps, reports of two ranks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.models.training import Bar
from console.parsers.training_values import positive, seconds

if TYPE_CHECKING:
    from console.models.training import Step

_BAR = re.compile(r"\| *(\d{1,12})/(\d{1,15}) \[([\d:]{1,12})<[^,]{0,30}, *([\d.?]{1,12})(it/s|s/it)")
_TRAINING = re.compile(r"(?i)\btrain(?:ing)?$|\]$")
"""What stands before the bar of training, if anything does."""


def drawn_bar(text: str) -> Bar | None:
    """The bar in a line; None for those of downloads and the like, which have a name before them."""
    start = text.find("%|")
    found = _BAR.match(text, text.find("|", start + 2))
    if found is None:
        return None
    name = text[max(0, start - 200) : start].rstrip("0123456789").rstrip(" \t:>")
    if name and (name[-1].isalpha() or name[-1] in ")]") and not _TRAINING.search(name):
        return None
    at, total, clock, rate, unit = found.groups()
    speed = positive(rate)
    return Bar(int(at), int(total), seconds(clock), 1 / speed if speed and unit == "it/s" else speed)


def close_in_time(one: Step, other: Step) -> bool:
    """Whether two reports may be of one step, by the time it took."""
    mine, others = one.step_time_s, other.step_time_s
    return mine is None or others is None or abs(mine - others) <= 0.02 * mine + 0.006


def skipped_since(step: Step, before: float) -> tuple[Step, float]:
    """DeepSpeed counts skipped steps from its start: the step with those since the last line, and the new count."""
    skipped = step.extra.get("skipped")
    if skipped is None:
        return step, before
    since = skipped - before
    extra = {name: value for name, value in step.extra.items() if name != "skipped"}
    return step._replace(skipped=int(since if since >= 0 else skipped), extra=extra), skipped
