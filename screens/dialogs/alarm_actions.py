"""Remedies for a job with an alarm or a slow rank, each with a key; every remedy shows its effect and asks first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from console.errors import Conflict
from console.folders import make_private
from console.hang.bundle import bundle_folder, bundle_name, find_automatic_bundle, write_bundle
from console.kube.objects.jobset import JobSet
from console.metrics.diagnosis import Blame, DiagnosisKind, diagnose_hang, find_blame
from console.metrics.health import STEPLESS_WORDS
from rankscope import HangReport, SlowReport
from screens.columns.jobs import JobLine
from screens.dialogs.launch import launch_like_job
from screens.dialogs.pool_actions import cordon_nodes, report_host
from screens.dialogs.question import Confirm, Question
from screens.dialogs.stop import stop_jobs
from screens.live_screen import LiveScreen
from screens.sanitize import one_line
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span, first_names, short_node, short_nodes, short_path


@dataclass(frozen=True, slots=True)
class RemedyKind:
    name: str
    key: str
    title: str


REMEDIES = (
    RemedyKind("without", "r", "Launch without the node"),
    RemedyKind("again", "c", "Launch again"),
    RemedyKind("cordon", "K", "Cordon"),
    RemedyKind("report", "F", "Report the host"),
    RemedyKind("bundle", "b", "Write the bundle"),
    RemedyKind("stop", "x", "Stop"),
    RemedyKind("pace", "p", "That is its pace now"),
)
NOT_POSSIBLE = "not possible"  # the words for one that is listed, but cannot be done
FROM_SAVED = "Launch from the checkpoint"  # what "Launch again" does where a complete one is known
ACT = Binding(
    "X",
    "act",
    "Act",
    key_display="X",
    id="job.act",
    tooltip="What can be done about its alarm, slow rank or slower steps: launch without the node or from the last "
    "checkpoint, cordon, report the host, bundle, stop, take them for its pace; each asks first",
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """A job with an alarm or a slow rank, and the known facts about the cause."""

    jobset: JobSet
    words: str
    blame: Blame
    report: HangReport | SlowReport | None = None  # of this session, for the bundle
    began_at: float = 0.0  # when it began
    slower_since: float | None = None  # since when its steps take longer; None: nobody says that they do
    archive_path: str = ""  # the one that was written unasked, where another console has the report


def trouble_of(screen: LiveScreen, line: JobLine | None, report: HangReport | None = None) -> Trouble | None:
    """The trouble that actions are about; None for a job without an alarm and without a known slow rank."""
    if line is None:
        return None
    jobset, made = line.jobset, report or screen.session.inspector.reports.get(line.jobset.key)
    inspected = made if made is not None and made.suspects else None
    stands = line.health.verdict if line.health.state in STEPLESS_WORDS else ""
    if line.alarms or stands or inspected is not None:
        kept = screen.session.diagnoses.find(jobset.uid, DiagnosisKind.HANG)
        diagnosis = diagnose_hang(inspected, jobset.uid) if inspected is not None else kept if stands else None
        words = f"{line.alarms[-1].kind.label}: {line.alarms[-1].text}" if line.alarms else ""
        words = words or stands or (inspected.short if inspected is not None else "")
        since = min((each.since for each in line.alarms), default=diagnosis.at if diagnosis is not None else 0.0)
        return Trouble(jobset, words, find_blame(line.alarms, diagnosis), inspected, since)
    slower = line.job_progress.slower_since if line.slower_text and line.job_progress is not None else None
    if line.slow_rank is not None and line.waits_for_slow_rank:
        return Trouble(jobset, line.slow_rank.words, find_blame((), line.slow_rank), line.slow, slower_since=slower)
    return Trouble(jobset, line.slower_text, find_blame((), None), slower_since=slower) if slower is not None else None


def list_remedies(screen: LiveScreen, trouble: Trouble) -> list[tuple[RemedyKind, str]]:
    """The actions offered for an alarm, each with its effect."""
    name, ended, blame = trouble.jobset.name, trouble.jobset.finished, trouble.blame
    where, innocent = _short_names(blame.nodes), _short_names(blame.cleared_nodes)
    nodes = screen.app.fleet.nodes
    known = [nodes["", each] for each in blame.nodes if ("", each) in nodes]
    pools = screen.session.google.node_pools
    why_not = next((why for each in known if (why := pools.why_not_reportable(each))), "")
    saved, kept = (
        screen.session.jobs.saved_state(trouble.jobset.key),
        screen.session.jobs.has_checkpoint(trouble.jobset),
    )
    whole = saved is not None and saved.survey is not None and saved.survey.last_complete is not None
    whole = whole and kept is not False
    again = FROM_SAVED if whole else "Launch again"
    seldom = f"seldom helps: not a node but the program, its data or storage is at fault; {innocent} is where it shows"
    can = {
        "without": f"as {again}, but not on {where}" if where else seldom if innocent else "",
        "again": f"the form with {name}'s values, {_where_it_begins(kept)}",
        "cordon": f"no new pods on {where}; running pods stay" if where else "",
        "report": ""
        if not known
        else f"{NOT_POSSIBLE}: {why_not.rstrip('.')}"
        if why_not
        else f"has Google replace the host of {where}, whose pods are evicted; cordons it"
        + (" and writes the bundle" if trouble.report else ""),
        "bundle": _bundle_words(trouble),
        "pace": "" if trouble.slower_since is None else "it is called slow again only if its steps become slower yet",
        "stop": "" if ended else f"{name}; shows what goes and what is lost",
    }
    found = [(each, can[each.name]) for each in REMEDIES if can[each.name]]
    if innocent:
        found.sort(key=lambda each: each[0].name == "without")
    return [(replace(each, title=FROM_SAVED) if whole and each.name == "again" else each, does) for each, does in found]


def _bundle_words(trouble: Trouble) -> str:
    if trouble.report is None:
        return f"written already: {trouble.archive_path}" if trouble.archive_path else ""
    more = "stacks, dumps, " if isinstance(trouble.report, HangReport) else ""
    return f"its report, {more}log lines and node facts as .tar.gz; secrets redacted"


def _short_names(nodes: Sequence[str]) -> str:
    return first_names([short_node(each) for each in nodes], 2)


def _where_it_begins(has_checkpoint: bool | None) -> str:
    if has_checkpoint is False:
        return "from its start: no checkpoint of it is known that outlives its pods"
    return "from its last complete checkpoint where there is one and the recipe takes it"


class ActDialog(Question[str]):
    DEFAULT_CSS: ClassVar[str] = """
    ActDialog > Vertical { padding: 0 2; }
    ActDialog SentenceLine { padding: 0; }
    ActDialog .keys { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss('')", "Cancel", id="act.cancel"),
        *(Binding(each.key, f"dismiss('{each.name}')", each.title, id=f"act.{each.name}") for each in REMEDIES),
    ]

    def __init__(self, trouble: Trouble, choices: Sequence[tuple[RemedyKind, str]]) -> None:
        super().__init__()
        self._trouble, self._choices = trouble, tuple(choices)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._trouble.jobset.name)
            yield SentenceLine(id="trouble")
            for each, _ in self._choices:
                yield SentenceLine(id=each.name)
            yield Static("Each asks first, or opens a form. Esc cancels.", classes="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#trouble", SentenceLine).runs = (
            Span(f"{short_nodes(one_line(self._trouble.words)).rstrip('.')}.", "bad"),
        )
        for each, note in self._choices:
            line = self.query_one(f"#{each.name}", SentenceLine)
            line.runs = (Span(f" {each.key}\u00a0 ", "accent"), Span(each.title, "strong"), Span(f": {note}.", "dim"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        offered = {"", *(each.name for each, _ in self._choices)}
        return action != "dismiss" or parameters[0] in offered


async def _with_archive(screen: LiveScreen, trouble: Trouble) -> Trouble:
    """The trouble with the hang archive that another console wrote, if this one has no report."""
    if trouble.report is not None or not trouble.began_at:
        return trouble
    place = await asyncio.to_thread(find_automatic_bundle, screen.session.watch, trouble.jobset.name, trouble.began_at)
    return trouble if place is None else replace(trouble, archive_path=short_path(str(place)))


async def act_on_trouble(screen: LiveScreen, trouble: Trouble | None, name: str = "") -> None:
    """Run the action `name`, else one that the person chooses, for a job with trouble; None: notify. In a worker."""
    if trouble is None:
        screen.notify("It has no alarm, its steps are not slower, and no slow rank is known.", timeout=3)
        return
    trouble = await _with_archive(screen, trouble)
    choices = list_remedies(screen, trouble)
    if name not in {each.name for each, _ in choices}:
        name = await screen.app.push_screen_wait(ActDialog(trouble, choices))
    match name:
        case "without" | "again":
            avoid = (trouble.blame.nodes or trouble.blame.cleared_nodes) if name == "without" else ()
            await launch_like_job(screen, trouble.jobset, avoided_nodes=avoid, resume=True)
        case "cordon":
            await cordon_nodes(
                screen, trouble.blame.nodes, reason=f"{trouble.jobset.name}: {trouble.words}"[:MAX_REASON]
            )
        case "report":
            await _report_hosts(screen, trouble)
        case "bundle":
            await _write_bundle(screen, trouble, ask=True)
        case "stop":
            await stop_jobs(screen, [trouble.jobset.key])
        case "pace":
            await screen.session.diagnoses.accept_pace(trouble.jobset.uid, trouble.words, trouble.slower_since or 0.0)
            screen.draw_fleet()
            screen.notify("That is its pace now.", title=trouble.jobset.name, timeout=3)


MAX_REASON = 200  # characters of the reason that stays with a cordoned node


async def _report_hosts(screen: LiveScreen, trouble: Trouble) -> None:
    """Report the hosts one after the other; each is cordoned and the bundle written once that was confirmed."""
    for name in trouble.blame.nodes:
        node = screen.app.fleet.nodes.get(("", name))
        if node is None:
            continue
        with screen.report_errors(f"Could not report {name}"):
            if why_not := screen.session.google.node_pools.why_not_reportable(node):
                raise Conflict(f"{name} cannot be reported. {why_not}")
            if await report_host(screen, node, reason=f"{trouble.jobset.name}: {trouble.words}"[:MAX_REASON]):
                await _write_bundle(screen, trouble, ask=False)


async def _write_bundle(screen: LiveScreen, trouble: Trouble, *, ask: bool) -> None:
    report, jobset = trouble.report, trouble.jobset
    if report is None:
        if ask and trouble.archive_path:
            screen.notify(f"{trouble.archive_path}.", title="Bundle", markup=False)
        return
    place = bundle_folder(screen.session.watch) / bundle_name(jobset.name)
    lines = [f"{place}", "Secrets are redacted. Nothing of the job changes."]
    if ask and not await screen.app.push_screen_wait(Confirm("Write the bundle?", lines, verb="Write", keep="Cancel")):
        return
    with screen.report_errors("The bundle is not written"):
        await asyncio.to_thread(make_private, place.parent)
        size = await write_bundle(screen.session.watch, jobset.namespace, report, place)
        screen.notify(f"{place}, {size:,} bytes.", title="Bundle written", markup=False)
