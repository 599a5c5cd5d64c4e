"""Formats values as text: ages, times, sizes, counts, bars and states (pure)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from math import isclose
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from console.connection_settings import OWN_NAME
from console.durations import DAY, HOUR, MINUTE, format_duration
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.alarm import ALARM_GLYPH
from screens.sanitize import one_line
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.launch.run_record import RunRecord
    from console.metrics.alarm import Alarm
    from console.scheduling.why import Why

JOB_COLOURS = 8  # jobs have this many colours; the ninth shares one


class Span(NamedTuple):
    """A text in one style; theme.py defines the styles."""

    text: str
    style: str = ""


Cell = str | Span | list[Span]  # what one cell of a table shows: plain text, text in one style, or several runs
Fact = tuple[str, Cell]  # a name and what it is


def spans_of(cell: Cell, style: str = "") -> list[Span]:
    """A cell as spans; those without a style get `style`."""
    if isinstance(cell, str):
        return [Span(cell, style)]
    if isinstance(cell, Span):
        return [cell if cell.style else Span(cell.text, style)]
    return [run if run.style else Span(run.text, style) for run in cell]


OK = Span("●", "ok")
UNDER_WAY = Span("◐", "waits")
IDLE = Span("○", "dim")
DONE = Span("✓", "ok")
CARE = Span("⚠", "waits")
BAD = Span("✗", "bad")
ALARM = Span(ALARM_GLYPH, "bad")
HELD = Span("‖", "waits")
GLYPH_MEANINGS = (
    (OK, "works: runs, or is ready"),
    (UNDER_WAY, "under way: starts, ends, connects or is being read"),
    (IDLE, "waits, or there is nothing to say of it"),
    (DONE, "has done its work"),
    (CARE, "needs a look: late, slow, evicted, or maintenance is near"),
    (BAD, "failed, faulty or refused"),
    (ALARM, "an alarm"),
    (HELD, "held by a person: a stopped queue or run, a cordoned node"),
)
"""Each sign of a state and what it means on every page."""
_BAR_CHARACTERS = frozenset("█▓▒░")
_GLYPHS_OF_NO_PROBLEM = frozenset({OK.text, IDLE.text, DONE.text})


def plain_text(cell: Cell) -> str:
    """A cell as plain text, without bars and without the mark for "ok"."""
    runs = spans_of(cell)
    if len(runs) > 1 and runs[0].text.strip() in _GLYPHS_OF_NO_PROBLEM:
        runs = runs[1:]
    return "".join(run.text for run in runs if not _BAR_CHARACTERS.issuperset(run.text)).strip()


def age(seconds: float) -> str:
    """A duration in at most two units, narrow enough for a column: "41s", "2m05s", "3h12m", "4d2h", "97d"."""
    whole = max(0, int(seconds))
    if whole < MINUTE:
        return f"{whole}s"
    if whole < 10 * MINUTE:
        return f"{whole // MINUTE}m{whole % MINUTE:02d}s"
    if whole < HOUR:
        return f"{whole // MINUTE}m"
    if whole < DAY:
        return f"{whole // HOUR}h{whole % HOUR // MINUTE:02d}m"
    if whole < 10 * DAY:
        return f"{whole // DAY}d{whole % DAY // HOUR}h"
    return f"{whole // DAY}d"


duration = format_duration


def format_freshness(seconds: float) -> str:
    """The age of a snapshot: "0.4 s", "14 s", "3 min"."""
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else duration(seconds)


def clock(when: float) -> str:
    """A local time (from epoch seconds) with its date: "2026-04-12 14:20:05"; empty for 0."""
    return f"{datetime.fromtimestamp(when).astimezone():%Y-%m-%d %H:%M:%S}" if when else ""


def clock_time(when: float, now: float) -> str:
    """A time (epoch seconds): "16:40", in the next six days "Mon 00:56", on another day "30 Nov 00:56"."""
    at, today = (datetime.fromtimestamp(each).astimezone() for each in (when, now))
    days = (at.date() - today.date()).days
    return f"{at:{'%a %H:%M' if 0 < days < 7 else '%d %b %H:%M' if days else '%H:%M'}}"


def moment(when: float, now: float) -> str:
    """A time (epoch seconds) in a sentence: relative up to a day ("2 min ago"), absolute after that; "" if unknown."""
    if not when:
        return ""
    apart = now - when
    if abs(apart) >= DAY:
        return f"{datetime.fromtimestamp(when).astimezone():%Y-%m-%d %H:%M}"
    return f"{duration(apart)} ago" if apart >= 0 else f"in {duration(-apart)}"


def size(amount: float) -> str:
    """Bytes in powers of 1024: "512 B", "64 MiB", "1.5 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(amount) < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if amount == int(amount) else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("the last unit takes everything")


def figure(amount: float) -> str:
    return f"{amount:,.0f}" if amount >= 10 else f"{amount:.1f}"


def count(amount: int, noun: str, nouns: str = "") -> str:
    """An amount with its noun: "1 node", "16 nodes", "1,016 nodes"."""
    return f"{amount:,} {noun if amount == 1 else nouns or noun + 's'}"


def first_names(names: Sequence[str], limit: int = 3) -> str:
    """The first of several names and the number of others: "a, b, c and 4 more"."""
    return ", ".join(names[:limit]) + (f" and {len(names) - limit} more" if len(names) > limit else "")


def percent(amount: float, total: float) -> str:
    """A share of `total` in whole percent: "41 %"; "< 1 %" of little, never 100 % of less than all; empty of 0."""
    if not total:
        return ""
    share = 100 * amount / total
    return "< 1 %" if 0 < share <= 0.5 else "99 %" if 99 < share < 100 else f"{share:.0f} %"


def percents(amounts: Sequence[float]) -> list[str]:
    """The shares of all parts of a whole in percent, rounded so that they sum to 100."""
    whole = sum(amounts)
    found = [int(100 * part / whole) for part in amounts]
    for at in sorted(range(len(amounts)), key=lambda at: found[at] - 100 * amounts[at] / whole)[: 100 - sum(found)]:
        found[at] += 1
    few = {0: "< 1 %", 100: "99 %"}  # of a part that is neither nothing nor all
    pairs = zip(amounts, found, strict=True)
    return [few.get(at, f"{at} %") if 0 < part < whole else f"{at} %" for part, at in pairs]


def bar(amount: float, total: float, width: int, style: str = "accent") -> list[Span]:
    """A bar, `width` columns wide, for a part of `total`; a small part is visible, and an incomplete one not full."""
    if total <= 0 or width <= 0:
        return [Span(" " * max(0, width))]
    filled = bar_columns(amount, total, width)
    return [Span("█" * filled, style), Span("░" * (width - filled), "faint")]


def bar_columns(amount: float, total: float, width: int) -> int:
    """The columns of a bar that a part fills: at least one, and all only for the whole."""
    if amount <= 0:
        return 0
    most = width if amount >= total or width == 1 else width - 1
    return max(1, min(most, round(width * amount / total)))


SPARKLINE_CHARACTERS = "▁▂▃▄▅▆▇█"


def heat_bar(share: float, *, low_is_bad: bool) -> Span:
    """One bar character for a share from 0 to 1, coloured by how good the share is."""
    if low_is_bad:
        style = "faint" if share < 0.05 else "dim" if share < 0.5 else "ok"
    else:
        style = "bad" if share > 0.97 else "waits" if share > 0.85 else "ok"
    return Span(SPARKLINE_CHARACTERS[min(len(SPARKLINE_CHARACTERS) - 1, int(share * len(SPARKLINE_CHARACTERS)))], style)


def sparkline(values: Sequence[float]) -> str:
    """A line chart in one row of characters, from lowest to highest value; empty for fewer than two values."""
    if len(values) < 2:
        return ""
    low, high = min(values), max(values)
    scale = 0.0 if isclose(low, high, rel_tol=1e-6) else (len(SPARKLINE_CHARACTERS) - 1) / (high - low)
    return "".join(SPARKLINE_CHARACTERS[round((value - low) * scale)] for value in values)


class JobColors:
    """Assigns colours to jobs; jobs share one only if there are more jobs than colours."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, uid: str) -> str:
        """The colour number of a job: by its uid, else the least used; kept until `keep_only` leaves the job out."""
        if uid not in self._numbers:
            used, first = Counter(self._numbers.values()), crc32(uid.encode()) % JOB_COLOURS
            around = (*range(first, JOB_COLOURS), *range(first))
            self._numbers[uid] = min(around, key=lambda number: used[number])
        return f"job-{self._numbers[uid]}"

    def keep_only(self, uids: Collection[str]) -> None:
        """Release the colours of all other jobs."""
        self._numbers = {uid: number for uid, number in self._numbers.items() if uid in uids}


_GKE_NODE = lazy_pattern(r"\bgke-[a-z0-9-]+?-((?:[a-z0-9]+-)?[a-z0-9]+)-[0-9a-f]{8}-([a-z0-9]{4})(?![a-z0-9-])")


def short_node(name: str) -> str:
    """A GKE node's name shortened to pool and last part, such as "a4-pool/0010"; others unchanged."""
    found = _GKE_NODE.fullmatch(name)
    return f"{found[1]}/{found[2]}" if found else name


def short_path(path: str) -> str:
    home = f"{Path.home()}/"
    return f"~/{path.removeprefix(home)}" if path.startswith(home) else path


def short_nodes(text: str) -> str:
    return _GKE_NODE.sub(r"\1/\2", text)


def sentence(text: str) -> str:
    """The text on one sanitized line; line ends become spaces."""
    return one_line(" ".join(text.split()))


def lower_first_letter(text: str) -> str:
    """A sentence to follow a colon: its first letter in lower case, except for names such as GPUs or NCCL."""
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def whole_path(path: str) -> Path:
    """The absolute path of a typed file name; `~` is expanded."""
    return Path(path).expanduser().absolute()


def pod_glyph(status: str, *, is_ready: bool) -> Span:
    if status in {"Succeeded", "Completed"}:
        return DONE
    if status == "Running":
        return OK if is_ready else UNDER_WAY
    if status in {"SchedulingGated", "Unschedulable"}:
        return IDLE
    if status in {"Pending", "ContainerCreating", "PodInitializing", "Terminating"}:
        return UNDER_WAY
    return BAD


def job_glyph(state: str) -> Span:
    return {
        "pending": IDLE,
        "starting": UNDER_WAY,
        "reserved": UNDER_WAY,
        "running": OK,
        "admitted": OK,
        "restarting": UNDER_WAY,
        "stopping": UNDER_WAY,
        "evicted": CARE,
        "succeeded": DONE,
        "finished": DONE,
        "failed": BAD,
        "deactivated": BAD,
    }.get(state, IDLE)


def since(when: float | None) -> str:
    """The time since a moment (epoch seconds) for a table column; empty if unknown."""
    return age(SERVER_CLOCK.now() - when) if when else ""


def loss_words(run: RunRecord) -> str:
    """A text with the last valid loss and its step; empty without a loss."""
    if run.loss is None:
        return ""
    return f"{run.loss:.4f}" + (f" at step {run.loss_step:,}" if run.loss_step is not None else "")


def alarm_words(alarm: Alarm, run: RunRecord) -> str:
    """A run's alarm: time, text, and duration."""
    if alarm.over:
        lasted = f", {alarm.ended_text}, after {duration(alarm.over - alarm.since)}"
    else:
        lasted = ", still in the end" if alarm.kind.is_lasting and not run.is_open else ""
    return f"{clock(alarm.since)} {alarm.kind.label}: {alarm.text}{lasted}"


def quotation(why: Why, shown_text: str, default: str = "") -> str:
    """The controller's own message, quoted, with its age if it disagrees; empty if a4's sentence says all of it."""
    own = sentence(why.api_text or default)
    if not own or own in shown_text or why.agrees:
        return ""
    if why.differs:
        when = f"{age(SERVER_CLOCK.now() - why.reported_at)} ago" if why.reported_at else "earlier"
        return f"Kueue said {when}, before the cluster was as it is now: “{own}”"
    return f"In the cluster's words: “{own}”"


MINE_MARK = f"@{OWN_NAME}"  # what the filter finds the things of whoever looks by
ALL_NAMESPACES = "all namespaces"


def owner(name: str) -> Span:
    """The owner as a span; "you" stands out."""
    return Span(name, "accent" if name == OWN_NAME else "dim")


def owner_words(shown_text: str, name: str) -> str:
    """The owner as text for filters: the name, and a mark for this person's own."""
    return f"{name} {MINE_MARK}" if shown_text == OWN_NAME else name
