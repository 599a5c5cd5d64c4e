"""The hang report of a job: which ranks are at another place in the program than the rest, why, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from console.errors import ConsoleError
from console.hang.bundle import find_automatic_bundle
from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.ownership import Proof
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.metrics.health import STEPLESS_WORDS, HealthLevel
from rankscope import (
    DUMPS_HALT,
    MAX_STACKS,
    Activity,
    HangGroup,
    HangReport,
    SlowReport,
    TracedProcess,
    format_member_lines,
    format_pod_lines,
    format_processes,
    seconds_to_ask,
)
from screens import wording
from screens.columns.column import Column, RowKey
from screens.columns.job_header import explanation
from screens.columns.jobs import JobLine, slow_rank_words
from screens.dialogs.question import Confirm, FilePrompt, Pick, PickEntry
from screens.job_tabs.tab import JobTab
from screens.sanitize import one_line
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, fold_spans
from screens.widgets.yaml import HEADING, OutputText
from screens.wording import Span
from trainlog import format_ranges

FLAME_SECONDS = 10.0  # seconds of a flame graph
BUNDLE_SECONDS = 60.0  # seconds around an inspection in which its archive was written


class HangGroupTable(ResourceTable["HangGroup"]):
    """A table of process groups, each with one call-stack location; groups that others wait for come first."""

    NOUN = "group"
    EMPTY = EmptyNotice("", glyph="")  # what is known, or what can be done, stands above it
    COLUMNS: ClassVar = (
        Column("", lambda group: group_sign(group), width=1),
        Column("COUNT", lambda group: f"{len(group.members)}", width=5, right=True),
        Column("WHERE", lambda group: Span(group.label, "bad" if group.suspect else "strong"), least=12, most=32),
        Column("RANKS", lambda group: format_ranges(group.ranks), least=8, most=40),
        Column("PODS", lambda group: format_ranges({each.pod_rank for each in group.members}), least=4, most=16),
        Column("NODE", lambda group: wording.short_nodes(group.place), least=10, most=40, cut="node"),
        Column("CALL", lambda group: _call_span(group), fill=True, least=20, drop=4),
    )

    def row_text(self, row: HangGroup) -> str:
        """The location, ranks and stack frames of a group: the text that the filter searches."""
        calls = {
            frame.function
            for each in row.members
            for thread in (each.stacks.threads if each.stacks else ())
            for frame in thread.frames
        }
        return f"{row.doing} {row.label} {row.format_short_members} {' '.join(calls)}"


def _call_span(group: HangGroup) -> Span:
    if group.members[0].program:
        return Span(group.members[0].command, "dim")
    frame = group.members[0].where.frame
    return Span(f"{frame.function} {frame.file}{f':{frame.line}' if frame.line else ''}" if frame else "─", "dim")


def _hide_known_verdict(tab: HangTab) -> None:
    """Hide the tab's verdict where the page's header already shows the same text uncut."""
    above = explanation(tab.line, is_gone=False) if tab.line is not None and tab.report else []
    cut = len(fold_spans(above, tab.screen.size.width - 2)) > 3
    shown = "".join(run.text for run in tab.verdict.runs[-1:]).strip()
    tab.verdict.display = cut or wording.short_nodes(shown) not in wording.plain_text(above)


def _makes_steps(line: JobLine | None) -> bool:
    """Whether the job is known to make training steps, which an inspection would delay."""
    if line is None or line.jobset.finished or line.job_progress is None or line.job_progress.step is None:
        return False
    return line.health.level is not HealthLevel.BAD and line.health.state not in STEPLESS_WORDS


def _key_of(group: HangGroup) -> RowKey:
    """The row key of a process group: its stack location, and whether the others wait for it."""
    return f"{group.doing}", group.label, "suspect" if group.suspect else ""


class HangTab(JobTab):
    """The tab that inspects a job for a hang when opened, and again by its key."""

    CHANGES_CLUSTER = frozenset({"slow", "stacks", "install", "record", "facts"})
    NAME = "hang"
    KEY = "H"
    TITLE = "Hang"
    DEFAULT_CSS: ClassVar[str] = """
    HangTab {
        #verdict { height: auto; max-height: 3; padding: 0 1; text-style: bold; }
        #advice { height: auto; max-height: 3; }
        #more { height: auto; max-height: 2; }
        HangGroupTable { height: auto; min-height: 3; max-height: 35%; margin: 1 0; }
        OutputText { height: 1fr; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("H", "inspect", "Check again", id="hang.look",
                tooltip="Ask all pods again; the stacks are those of the ranks for which the others wait, if known"),
        Binding("S", "stacks", "All stacks", id="hang.stacks", tooltip="Read the stacks of all ranks"),
        Binding("M", "slow", "Slow ranks", id="hang.slow",
                tooltip="Ask NCCL in one pod, for a dozen steps, for which rank the others wait"),
        Binding("F", "record", "Flame graph", id="hang.record",
                tooltip="Record the first process of the row for ten seconds: as SVG, or for speedscope as .json"),
        Binding("P", "facts", "Process", id="hang.facts", tooltip="status, limits, fd, maps of /proc, or strace"),
        Binding("I", "install", "Install py-spy", id="hang.install", tooltip="By pip, where it is missing; asks first"),
    ]  # fmt: skip

    verdict = getters.query_one("#verdict", SentenceLine)
    advice = getters.query_one("#advice", SentenceLine)
    more = getters.query_one("#more", SentenceLine)
    table = focus_target = getters.query_one(HangGroupTable)
    text = getters.query_one(OutputText)
    report: HangReport | None = None
    _was_opened = False
    _agreed = False

    def compose(self) -> ComposeResult:
        yield SentenceLine(id="verdict")
        yield SentenceLine(id="advice")
        yield SentenceLine(id="more")
        yield HangGroupTable()
        yield OutputText()

    def on_mount(self) -> None:
        self.table.show_rows({})  # its rows are of no kind that the cluster lists
        self.text.wrap = True

    def on_resize(self) -> None:
        _hide_known_verdict(self)

    @property
    def fault(self) -> str:
        lives = self.line is not None and not self.line.jobset.finished
        return self.report.short.rstrip(".") if lives and self.report is not None and self.report.suspects else ""

    def opened(self) -> None:
        if not self._was_opened:
            self._was_opened = True
            made = self.live.session.inspector.reports.get(self.key)
            monitor = self.live.session.jobs.find_monitor(self.key)
            if made is not None and monitor is not None and monitor.watch.verdict:  # made since its last step
                self._show_report(made)
            elif made is None and (hang := self._find_hang_of_others()) is not None:
                self._show_hang_of_others(hang)
            elif made is None and (slow := self._find_slow_report()) is not None:
                self._show_slow(slow)
            elif made is None and self.line is not None and self.line.slow_rank is not None:
                self._show_slow_rank(self.line.slow_rank)
            elif made is None and _makes_steps(self.line):
                self._show_summary("dim", "○ ", f"Not inspected: it makes steps. H inspects it. {DUMPS_HALT}")
            else:
                self._inspect_job(all_stacks=False, was_asked=False)

    def _find_hang_of_others(self) -> Diagnosis | None:
        """The hang diagnosis of this job that another console made; None without one, or if the job goes on."""
        line = self.line
        if line is None or not line.hang_verdict or line.health.state not in STEPLESS_WORDS:
            return None
        found = self.live.session.diagnoses.find(line.jobset.uid, DiagnosisKind.HANG)
        return found if found is not None and found.words == line.hang_verdict else None

    def _show_hang_of_others(self, diagnosis: Diagnosis) -> None:
        """Show the verdict of another console, and where the whole report is."""
        kept = find_automatic_bundle(self.live.session.watch, self.key[1], diagnosis.at - BUNDLE_SECONDS)
        place = f" The report is in {wording.short_path(str(kept))}." if kept is not None else ""
        words = wording.short_nodes(f"{diagnosis.words}.")
        at = wording.clock_time(diagnosis.at, SERVER_CLOCK.now())
        self._show_summary("bad", "✗ ", f"{words} Another console found that at {at}.{place} H inspects it again.")
        self._show_advice(diagnosis.advice)

    def _find_slow_report(self) -> SlowReport | None:
        """The slow-rank report of this session; None without one, or if another console measured later."""
        report = self.live.session.jobs.slow_report(self.key)
        known = self.line.slow_rank if self.line is not None else None
        if report is None or (known is not None and known.at > report.at):
            return None
        return report if report.has_verdict or report.suspects else None

    def offers(self) -> dict[str, object]:
        process = self._selected_process()
        missing = self.report and self.report.without_py_spy
        return {
            "install": missing,
            "stacks": self.report and self.report.spared,
            "record": process and not process.program,
        }

    async def _may_inspect(self, *, was_asked: bool = True) -> bool:
        """Whether the job may be inspected now; a person is asked unless it is proven to hang."""
        if self.live.app.settings.read_only:
            self._show_summary("dim", "○ ", "Not inspected: in read-only mode no command runs in a pod.")
            return False
        jobset = self.line.jobset if self.line is not None else None
        if self._agreed or jobset is None or jobset.finished:
            return True
        proof, diagnoses = await self.live.session.own_job_inspector.read_proof(jobset), self.live.session.diagnoses
        if proof.may_look:
            return True
        doubt = one_line(proof.why_not(jobset.owner))
        if was_asked or diagnoses.find_consent(jobset.uid) is None:
            more = [
                f"It may be another person's job: {doubt}.",
                DUMPS_HALT,
                "Reading their stacks halts, for a moment, ranks that others wait for.",
            ]
            question = f"Look into the pods of {self.key[1]}?"
            self._agreed = await self.live.app.push_screen_wait(Confirm(question, more, verb="Look", keep="Cancel"))
            if proof is Proof.LABEL:
                answer = "yes" if self._agreed else "no"
                await diagnoses.record(Diagnosis(jobset.uid, DiagnosisKind.CONSENT, SERVER_CLOCK.now(), answer))
        if not self._agreed:
            self._show_summary("dim", "○ ", f"Not inspected: {doubt}. H asks again.")
        return self._agreed

    @work(group="hang", exclusive=True)
    async def action_slow(self) -> None:
        if not await self._may_inspect():
            return
        if self.line is not None and self.line.health.state in STEPLESS_WORDS:
            self._show_summary("dim", "○ ", f"{self.key[1]} makes no steps: H says for which rank the others wait.")
            return
        measures = self.live.session.measures.find_followed(self.key)
        track = measures.track if measures is not None else None
        seconds = seconds_to_ask(track.pace() if track is not None else None)
        self._show_summary("waits", "◐ ", f"Asking NCCL for {seconds:.0f} s for which rank the others wait…")
        try:
            report = await self._measure_slow(seconds)
        except ConsoleError as error:
            self._show_summary("bad", "✗ ", str(error))
            return
        if not report.slow and await self.live.app.push_screen_wait(
            Confirm(
                f"{' '.join(report.words)}",
                [
                    "Every rank can also be asked how long it was in each collective: that tells whether others wait, "
                    "and of slow GPUs and links.",
                    DUMPS_HALT,
                ],
                verb="Ask",
                keep="Cancel",
            )
        ):
            self._show_summary("waits", "◐ ", "Asking every rank how long it was in each collective…")
            try:
                report = await self._measure_slow(seconds, reads_recorder=True)
            except ConsoleError as error:
                self._show_summary("bad", "✗ ", str(error))
                return
        self._show_slow(report)

    async def _measure_slow(self, seconds: float, *, reads_recorder: bool = False) -> SlowReport:
        """Ask NCCL which ranks the others wait for; a notification gives the result if the page was left."""
        app, probe, key = self.live.app, self.live.session.inspector, self.key

        async def measure() -> SlowReport | ConsoleError:
            try:
                found: SlowReport | ConsoleError = await probe.find_slow_ranks(
                    *key, seconds, reads_recorder=reads_recorder
                )
            except ConsoleError as error:
                found = error
            if not self.is_attached:
                message = str(found) if isinstance(found, ConsoleError) else " ".join(found.words)
                app.notify(wording.short_nodes(message), title=f"Slow ranks of {key[1]}")
            return found

        found = await asyncio.shield(app.run_worker(measure(), group="slow ranks").wait())
        if isinstance(found, ConsoleError):
            raise found
        return found

    def _show_slow(self, report: SlowReport) -> None:
        glyph, style = ("▲ ", "waits") if report.slow else ("● ", "ok") if report.has_verdict else ("○ ", "dim")
        asked = [f"{report.timed}."] if report.timed and not (report.slow or report.no_gpu_slow) else []
        self._show_summary(style, glyph, wording.short_nodes(" ".join([*report.words, *asked])))
        self._show_advice(report.advice)

    def _show_slow_rank(self, diagnosis: Diagnosis) -> None:
        """Show the slow rank that another console measured; the whole report is only there."""
        self._show_summary("waits", "▲ ", wording.short_nodes(f"{slow_rank_words(diagnosis, SERVER_CLOCK.now())}."))
        self._show_advice(diagnosis.advice)

    def _show_advice(self, advice: Sequence[str]) -> None:
        self.advice.runs = tuple(Span(f"{'' if at else '→'} {each}", "accent") for at, each in enumerate(advice))

    def action_inspect(self) -> None:
        self._inspect_job(all_stacks=False)

    def action_stacks(self) -> None:
        self._inspect_job(all_stacks=True)

    @work(group="hang", exclusive=True)
    async def _inspect_job(self, *, all_stacks: bool, was_asked: bool = True) -> None:
        if not await self._may_inspect(was_asked=was_asked):
            return
        doing = "Reading the stacks of all processes" if all_stacks else "Asking where the processes are"
        self._show_summary("waits", "◐ ", f"{doing}…")

        def answered(answered_count: int, every: int) -> None:
            self._show_summary("waits", "◐ ", f"{doing}: {answered_count} of {wording.count(every, 'pod')} answered…")

        try:
            inspector = self.live.session.inspector
            report = await inspector.inspect_job(*self.key, all_stacks=all_stacks, on_answer=answered)
        except ConsoleError as error:
            gone = self.line is not None and self.fleet is not None and self.key not in self.fleet.jobsets
            if self.ended or gone:
                self._show_job_end()
            else:
                self._show_summary("bad", "✗ ", str(error))
            return
        self._show_report(report)
        if report.without_py_spy and not self.live.app.settings.read_only:
            await self._ask_to_install(report)
        analysed = await inspector.add_torch_analysis(*self.key, report)
        if self.report is report:
            self.report = analysed
            self._show_group()

    def _show_report(self, report: HangReport) -> None:
        self.report = report
        self._show_new_report(report)
        self.refresh_bindings()

    def draw(self, line: JobLine | None, fleet: Fleet) -> None:
        """Update the text on how the job ended, which may be known only late."""
        if self.ended and self.report is None:
            self._show_job_end()
        _hide_known_verdict(self)

    def _show_job_end(self) -> None:
        self._show_summary("dim", "○ ", f"There are no processes to inspect. {self.ended or 'The job is gone.'}")

    def _show_summary(self, style: str, glyph: str, sentence: str) -> None:
        self.verdict.runs = (Span(glyph, style), Span(sentence, style if style == "bad" else ""))
        self.advice.runs = self.more.runs = ()
        _hide_known_verdict(self)

    def _show_new_report(self, report: HangReport) -> None:
        _, *rest = report.verdict
        sign = wording.BAD if report.alarming else next(map(group_sign, report.groups), wording.IDLE)
        self.verdict.runs = (sign, Span(f" {report.short}", "bad" if report.alarming else "strong"))
        _hide_known_verdict(self)
        self._show_advice(report.advice)
        groups = f"{report.summary[:1].upper()}{report.summary[1:]}."
        spans = (*(Span(f"{each} ") for each in rest), Span(groups, "dim"))
        self.more.runs = tuple(Span(wording.short_nodes(run.text), run.style) for run in spans)
        self.note = f"✗ {sum(len(group.members) for group in report.suspects)}" if report.suspects else ""
        rows: dict[RowKey, HangGroup] = {_key_of(group): group for group in report.groups}
        self.table.show_rows(rows)
        if report.groups:
            self.table.move_to(_key_of(report.groups[0]))
        self._show_group()

    @on(HangGroupTable.Highlighted, "HangGroupTable")
    def _show_group(self) -> None:
        group, report = self.table.row, self.report
        if report is None:
            return
        self.refresh_bindings()
        lines: list[str] = []
        pods = [each for each in format_pod_lines(report) if not any(words in each for words in report.verdict[1:])]
        if group is not None:
            if self.is_open:  # keys of the page are about the pod of the process
                self.post_message(self.Chosen(group.members[0].pod_rank))
            lines.append(f"{HEADING}{group_sign(group).text} {group.sentence}")
            lines += format_member_lines(group)
            if len(group.members) > MAX_STACKS:
                lines += [f"   … and {len(group.members) - MAX_STACKS} more", ""]
        self.text.show(wording.short_nodes("\n".join([*lines, *_with_glyphs(pods)])))

    @on(HangGroupTable.Opened, "HangGroupTable")
    def open_rank(self, event: HangGroupTable.Opened) -> None:
        event.stop()
        process = self._selected_process()
        if process is not None:
            self.post_message(self.Chosen(process.pod_rank, "log"))

    def _selected_process(self) -> TracedProcess | None:
        return self.table.row.members[0] if self.table.row else None

    # what takes longer

    @work(group="actions")
    async def action_record(self) -> None:
        process, report = self._selected_process(), self.report
        if process is None or report is None:
            return
        app = self.live.app
        name = f"{self.key[1]}-rank-{process.rank}.svg"
        what = format_processes(process.sort_place)
        place = await app.push_screen_wait(FilePrompt(f"Record {what} for {FLAME_SECONDS:g} s and save it to", name))
        if not place:
            return
        tool = next((pod.py_spy for pod in report.pods if pod.pod == process.pod), "")
        with self.live.report_errors(f"No flame graph of {what}"):
            self.notify(f"Records {what} for {FLAME_SECONDS:g} s…")
            file = await asyncio.to_thread(Path(place).expanduser)
            size = await self.live.session.inspector.record_profile(*self.key, process, tool, FLAME_SECONDS, file)
            self.notify(f"{file.absolute()}, {size:,} bytes.", title="Flame graph saved")

    @work(group="actions")
    async def action_facts(self) -> None:
        """Show a file in /proc of the selected process; asks which."""
        process = self._selected_process()
        if process is None:  # without this action the key would open the page that has it elsewhere
            self.live.notify("There is no process in the list yet.", timeout=3)
            return
        who = f"{format_processes(process.sort_place)}, pid {process.pid}"
        choices = [PickEntry(name, note) for name, note in FACT_NOTES.items()]
        what = await self.live.app.push_screen_wait(Pick(f"Of {who}", choices))
        if what is None:
            return
        with self.live.report_errors(f"Rank {process.rank} shows no {what}"):
            text = await self.live.session.inspector.read_process_fact(*self.key, process, what)
            self.text.show(f"{HEADING}● {what} of {who}\n{text}")

    @work(group="hang-install", exclusive=True)
    async def action_install(self) -> None:
        if self.report is not None:
            await self._ask_to_install(self.report)

    async def _ask_to_install(self, report: HangReport) -> None:
        missing = [pod.pod for pod in report.without_py_spy]
        question = f"py-spy is missing in {len(missing)} of {wording.count(len(report.pods), 'pod')} of {self.key[1]}."
        lines = [
            *missing[:8],
            *([f"… and {len(missing) - 8} more"] if len(missing) > 8 else []),
            "It is installed with pip or copied from here; it is lost when the containers end.",
        ]
        if not await self.live.app.push_screen_wait(Confirm(question, lines, verb="Install", keep="Cancel")):
            return
        with self.live.report_errors("py-spy is not installed"):
            self._show_summary("waits", "◐ ", f"Installs py-spy in {wording.count(len(missing), 'pod')}…")
            done = await self.live.session.inspector.install_py_spy(*self.key, missing)
            failed = {pod: why for pod, why in done.items() if why}
            for pod, why in list(failed.items())[:1]:
                self.notify(why, title=f"py-spy is not installed in {pod}", severity="error")
            if len(failed) < len(missing):
                self.action_inspect()
            else:
                self._show_new_report(report)


FACT_NOTES = {
    "status": "state, memory, threads",
    "limits": "limits of the process",
    "fd": "open files, pipes and sockets",
    "maps": "its memory",
    "strace": "system calls, for ten seconds",
}


def group_sign(group: HangGroup) -> Span:
    """The group's sign: bad for suspects, ok for processes that compute, idle for all others."""
    return wording.BAD if group.suspect else wording.OK if group.doing is Activity.COMPUTE else wording.IDLE


def _with_glyphs(lines: list[str]) -> list[str]:
    return [
        f"{HEADING}{'✗' if below.startswith('   ✗') else '●'} {each[len(HEADING) :]}"
        if each.startswith(HEADING)
        else each
        for each, below in zip(lines, [*lines[1:], ""], strict=True)
    ]
