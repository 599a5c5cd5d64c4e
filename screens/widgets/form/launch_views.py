"""Four views of a launch plan (objects, values as YAML, differences, helm command), and the preflight summary.

Text typed as YAML goes into the form. The checks run by themselves when keys rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import ContentSwitcher, TextArea

from console.errors import ConsoleError
from console.launch.helm_command import HelmCommand
from console.launch.recipes import FieldProblem, LaunchPlan, Remark, join_manifests
from console.launch.releases import DiffKind, ObjectDiff
from console.launch.service import LaunchService
from console.preflight.check import Check, Result, tally_results
from console.session import Session
from screens import wording
from screens.widgets.form.form_model import LaunchDraft
from screens.widgets.form.launch_form import Form
from screens.widgets.styled_text import wrap_text
from screens.widgets.title_and_keys import TabLabel, TabStrip
from screens.widgets.wrapped_sentence import SentenceLine
from screens.widgets.yaml import YamlEditor, YamlText, yaml_spans
from screens.wording import BAD, CARE, OK, Span, sentence

Planned = tuple[LaunchPlan, tuple[FieldProblem, ...]]  # a plan as typed, and all its problems
VIEWS = (("preview", "f2", "Preview"), ("yaml", "f3", "YAML"), ("diff", "f4", "Diff"), ("command", "f5", "Command"))
_DIFF_STYLES = {"+": "ok", "-": "bad", "@": "faint", "=": "head"}


class DiffText(YamlText):
    """A widget with the differences of objects; added and removed lines are marked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "b",
            "screen.against",
            "Beside the last launch",
            id="diff.against",
            tooltip="What differs from the last launch of this recipe, or from its defaults again",
        )
    ]

    def paint(self, text: str, full_text: str) -> list[Span]:
        style = _DIFF_STYLES.get(full_text[:1], "")
        return [Span(text, style)] if style else yaml_spans(text)

    def show_diffs(self, diffs: Sequence[ObjectDiff]) -> None:
        lines = []
        for diff in diffs:
            if diff.change is not DiffKind.SAME:
                lines.append(f"== {diff.kind} {diff.name} ({diff.change})")
                lines += [f"@  {line.text}" if line.mark == "@" else f"{line.mark} {line.text}" for line in diff.lines]
        self.show("\n".join(lines))


class CommandText(YamlText):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "Copy", id="command.copy", tooltip="The command, into this machine's clipboard"),
        Binding("i", "turn", "All in one line", id="command.inline", tooltip="Values in the line itself, or in a file"),
    ]

    inline = False
    _command: HelmCommand | None = None

    def show_command(self, command: HelmCommand) -> None:
        self._command = command
        lines = [self._command_text]
        if command.needs:
            lines += ["", f"# First: export {' '.join(f'{name}=…' for name in command.needs)}"]
        if not self.inline:
            lines += ["", f"# {command.file_name}", command.file_text or "{}"]
        self.show("\n".join(lines))

    @property
    def _command_text(self) -> str:
        assert self._command is not None
        return self._command.inline if self.inline else self._command.with_file

    def paint(self, text: str, full_text: str) -> list[Span]:
        lead = text[: len(text) - len(text.lstrip())]
        word, gap, rest = text.lstrip().partition(" ")
        if word.startswith("--") or word == "helm":
            return [Span(lead), Span(word, "accent"), Span(gap + rest)]
        return yaml_spans(text)

    def action_copy(self) -> None:
        if self._command is not None:
            self.app.copy_to_clipboard(self._command_text)
            self.notify("The command is in the clipboard.", timeout=3)

    def action_turn(self) -> None:
        self.inline = not self.inline
        if self._command is not None:
            self.show_command(self._command)


class LaunchPane(Vertical):
    """The pane with the four views of a launch as tabs; only the visible view is kept up to date."""

    DEFAULT_CSS: ClassVar[str] = """
    LaunchPane { height: 1fr; }
    LaunchPane ContentSwitcher, LaunchPane ContentSwitcher > Vertical { height: 1fr; }
    LaunchPane SentenceLine { background: $ground-head; max-height: 4; }
    """

    def __init__(self, form: Form, plan: Callable[[], Planned | None], launch: Callable[[], LaunchService]) -> None:
        super().__init__(id="pane")
        self._form, self._plan, self._launch = form, plan, launch
        self._draft: LaunchDraft | None = None  # that the form shows
        self.remarks: tuple[Remark, ...] = ()
        """The reasons why the YAML in the pane differs from the form's values; empty if it does not."""
        self._yaml_is_stale = True  # whether the YAML in the pane is that of another recipe still
        self.shown_view = "preview"
        self.preview = YamlText(id="preview")
        self.yaml = YamlEditor()
        self.yaml_message = SentenceLine()
        self.diff = DiffText()
        self.diff_message = SentenceLine()
        self.command = CommandText(id="command")
        self._shown = ""

    def compose(self) -> ComposeResult:
        yield TabStrip()
        with ContentSwitcher(initial=self.shown_view):
            yield self.preview
            with Vertical(id="yaml"):
                yield self.yaml
                yield self.yaml_message
            with Vertical(id="diff"):
                yield self.diff_message
                yield self.diff
            yield self.command

    def on_mount(self) -> None:
        self._turn_to(self.shown_view)
        self.show_remarks(())

    @property
    def focus_target(self) -> Widget:
        return {"preview": self.preview, "yaml": self.yaml, "diff": self.diff, "command": self.command}[self.shown_view]

    def _turn_to(self, view: str) -> None:
        self.shown_view = view
        strip = self.query_one(TabStrip)
        strip.tabs = tuple(TabLabel(name, key.upper(), title) for name, key, title in VIEWS)
        strip.open_tab = view
        self.query_one(ContentSwitcher).current = view
        self.screen.refresh_bindings()

    def show_remarks(self, remarks: Sequence[Remark]) -> None:
        """Mark the faulty lines of the YAML; show the first problem and "(n more)"; without any, describe the text."""
        self.yaml.mark({remark.line for remark in remarks})
        self.yaml_message.runs = (Span("What differs from the defaults; typing here changes the form.", "dim"),)
        if remarks:
            first = remarks[0]
            where = f"line {first.line}: " if first.line else ""
            more = f" ({len(remarks) - 1} more)" if len(remarks) > 1 else ""
            self.yaml_message.runs = (Span("✗ ", "bad"), Span(f"{where}{sentence(first.message)}{more}", "bad"))

    @on(TextArea.Changed)
    def accept_typing(self, event: TextArea.Changed) -> None:
        event.stop()
        text = self.yaml.text
        if text != self._shown:
            self._shown = text
            # Copy the YAML into the form if it is valid; else show its problems and leave the form unchanged.
            planned, draft = self._plan(), self._draft
            if planned is None or draft is None or self._yaml_is_stale:
                return
            draft.yaml = text
            read = self._launch().plan_texts.read_yaml(draft.recipe.id, text, hidden=planned[0].values)
            self.remarks = read.problems
            self.show_remarks(read.problems)
            if read.is_valid:
                self._form.put_texts(draft.texts_for(read.values))

    def show_draft(self, draft: LaunchDraft) -> None:
        self._draft, self._yaml_is_stale, self.remarks = draft, True, ()
        self.show_remarks(())

    # in sight or not

    @property
    def is_open(self) -> bool:
        """Whether the views are visible: on a wide screen unless hidden."""
        wide = self.screen.has_class("-wide")
        return not self.screen.has_class("-no-pane") if wide else self.screen.has_class("-pane")

    def show(self, is_shown: bool) -> None:
        self.screen.set_class(is_shown, "-pane")
        self.screen.set_class(not is_shown, "-no-pane")
        self.screen.refresh_bindings()

    @property
    def views_key_label(self) -> str:
        """The label of the key that shows the next view, or after the last view hides them all."""
        return "Hide views" if self.shown_view == VIEWS[-1][0] else "Next view"

    def show_next_view(self) -> None:
        """Show the views, then go to the next one, and after the last hide them; the focus stays if possible."""
        names = [view for view, _, _ in VIEWS]
        at = names.index(self.shown_view)
        if not self.is_open:
            self.show(True)
        elif at + 1 < len(names):
            self._turn_to(names[at + 1])
        else:
            self.show(False)
            self._turn_to(names[0])
        if not self.is_open:
            self._form.resume()
        elif self.screen.has_class("-narrow") or self.has_focus_within:
            self.focus_target.focus()
        self.draw()

    def open(self, view: str) -> None:
        planned = self._plan()
        if view == "yaml" and planned is not None:
            self._draw_yaml(planned[0])
        self.show(True)
        self._turn_to(view)
        self.focus_target.focus()
        self.draw()

    def leave(self) -> None:
        if not self.screen.has_class("-wide"):
            self.show(False)
        self._form.resume()

    # what they hold

    def draw(self) -> None:
        """Redraw the visible view in the background."""
        if self.is_open:
            self._draw_view()

    @work(group="views", exclusive=True)
    async def _draw_view(self) -> None:
        planned, draft = self._plan(), self._draft
        if planned is None or draft is None:
            return
        view, launch, (plan, problems) = self.shown_view, self._launch(), planned
        try:
            if view == "yaml":
                self._draw_yaml(plan)
            elif problems:
                self._show_sentence(view, f"Not rendered: {wording.sentence(problems[0].message)}")
            elif view == "preview":
                self.preview.show(join_manifests(await launch.launcher().render(plan)))
            elif view == "diff":
                await self._draw_diff(plan, draft)
            else:
                self.command.show_command(launch.plan_texts.helm_command(plan))
        except ConsoleError as error:
            self._show_sentence(view, wording.sentence(str(error)))

    def _show_sentence(self, view: str, sentence: str) -> None:
        page = {"preview": self.preview, "diff": self.diff, "command": self.command}[view]
        page.show("\n".join(f"# {line}" for line in wrap_text(sentence, max(20, page.size.width - 4))))

    async def _draw_diff(self, plan: LaunchPlan, draft: LaunchDraft) -> None:
        diffs = await self._launch().plan_texts.diff_with(plan, draft.compared_values)
        added, removed = (sum(line.mark == mark for each in diffs for line in each.lines) for mark in "+-")
        than = draft.compared_name or "the recipe's defaults"
        if added or removed:
            counted = Span(f"+{added} ", "ok"), Span(f"−{removed} ", "bad"), Span(f"lines, beside {than}", "dim")
            self.diff_message.runs = counted
        else:
            self.diff_message.runs = (Span(f"The same as {than}.", "dim"),)
        self.diff.show_diffs(diffs)

    @work(group="views-against", exclusive=True)
    async def toggle_comparison_base(self) -> None:
        """Compare with the last launch of the recipe, or again with its defaults."""
        draft = self._draft
        if draft is None:
            return
        if draft.compared_values is not None:
            draft.compared_values, draft.compared_name = None, ""
        elif found := await self._launch().runs.last_launch_values(draft.recipe.id):
            draft.compared_name, draft.compared_values = f"{found[0]}, the last launch", found[1]
        else:
            self.diff_message.runs = (Span("This recipe has not been launched yet.", "waits"),)
            return
        self.draw()

    # YAML

    def _draw_yaml(self, plan: LaunchPlan) -> None:
        """Show the form's values, unless the YAML is being edited or has problems."""
        draft = self._draft
        if draft is None or ((self.yaml.has_focus or self.remarks) and not self._yaml_is_stale):
            return
        drafting = self._launch().plan_texts
        draft.yaml = drafting.write_yaml(plan, draft.yaml)
        self._shown = draft.yaml
        (self.yaml.load_text if self._yaml_is_stale else self.yaml.show)(draft.yaml)
        self._yaml_is_stale = False
        self.show_remarks(drafting.read_yaml(draft.recipe.id, draft.yaml, hidden=plan.values).problems)

    def forget_yaml(self) -> None:
        """Replace invalid YAML by the form's values when the form is edited (ctrl+z restores it)."""
        if self.remarks and not self.yaml.has_focus:
            self.remarks = ()
            self.show_remarks(())


TYPING_PAUSE_SECONDS = 1.5  # seconds without a change of the form after which the checks look
CHECK_CACHE_SECONDS = 60.0  # seconds for which what was found for a plan is believed


class PreflightLine(SentenceLine):
    """A line with the summary of checks for the last plan that was checked; empty at first."""

    DEFAULT_CSS: ClassVar[str] = "PreflightLine { height: 1; max-height: 1; display: none; }"

    def __init__(self) -> None:
        super().__init__(id="preflight")
        self.checks: tuple[Check, ...] = ()
        self._plan: LaunchPlan | None = None
        self._checked_at = 0.0
        self._check_timer: Timer | None = None

    def check_when_typing_pauses(self, session: Session, plan: LaunchPlan) -> None:
        """Run the checks of this plan once typing pauses; a plan that was just checked is skipped."""
        if plan == self._plan and time.monotonic() < self._checked_at + CHECK_CACHE_SECONDS:
            return
        if self._check_timer is not None:
            self._check_timer.stop()
        self._check_timer = self.set_timer(TYPING_PAUSE_SECONDS, lambda: self._run_checks(session, plan))

    def postpone_checks(self) -> None:
        """Postpone a pending check, because the person is moving in the form."""
        if self._check_timer is not None:
            self._check_timer.reset()

    @work(group="preflight", exclusive=True)
    async def _run_checks(self, session: Session, plan: LaunchPlan) -> None:
        try:
            engine = session.preflight
            self.checks = tuple([check async for check in engine.run(engine.launch_needs(plan))])
        except ConsoleError as error:
            self.runs = (CARE, Span(f" preflight: {error.message}", "dim"))
        else:
            self._plan, self._checked_at = plan, time.monotonic()
            found = tally_results(self.checks)
            mark = BAD if found.failing else CARE if dict(found.counts).get(Result.WARN) else OK
            self.runs = (mark, Span(" preflight: ", "dim"), Span(found.sentence), Span("  f9 shows all", "dim"))
        self.display = True
