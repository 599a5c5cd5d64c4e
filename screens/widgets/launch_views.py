"""Fills the views of a launch, and takes what is typed as YAML into the form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from console.errors import ConsoleError
from screens import wording
from screens.widgets.launch_pane import VIEWS
from screens.widgets.line import wrap
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from console.models.draft import Remark
    from console.models.launch import FieldProblem, LaunchPlan, Value
    from console.session import Session
    from screens.widgets.form import Form
    from screens.widgets.launch_draft import LaunchDraft
    from screens.widgets.launch_pane import LaunchPane


class Shower(Protocol):
    """The screen on which the views are."""

    draft: LaunchDraft | None

    @property
    def form(self) -> Form:
        """What is typed in."""

    @property
    def session(self) -> Session:
        """Who renders."""

    def has_class(self, *names: str) -> bool:
        """Textual's."""

    def set_class(self, add: bool, *names: str) -> Any:
        """Textual's."""

    def plan(self) -> tuple[LaunchPlan, tuple[FieldProblem, ...]] | None:
        """What is typed."""

    def run_worker(self, work: Callable[[], Coroutine[Any, Any, None]], *, group: str, exclusive: bool) -> Any:
        """Textual's."""


class LaunchViews:
    """One pane's contents."""

    def __init__(self, screen: Shower, pane: LaunchPane) -> None:
        self._screen, self._pane = screen, pane
        self.remarks: tuple[Remark, ...] = ()
        """Why the YAML in the pane is not what the form holds; empty: it is."""
        self._anew = True
        """Whether the YAML in the pane is that of another recipe still."""

    def begin(self) -> None:
        """Another recipe."""
        self.remarks = ()
        self._anew = True
        self._pane.say_remarks(())

    # in sight or not

    @property
    def is_open(self) -> bool:
        """Whether the views are in sight: on a wide screen unless they were put away."""
        wide = self._screen.has_class("-wide")
        return not self._screen.has_class("-no-pane") if wide else self._screen.has_class("-pane")

    def show(self, shown: bool) -> None:
        """Puts them in sight, or away."""
        self._screen.set_class(shown, "-pane")
        self._screen.set_class(not shown, "-no-pane")

    def turn(self) -> None:
        """In sight, then one after the other, then away; the keys stay where they are if that is in sight."""
        names = [view for view, _, _ in VIEWS]
        at = names.index(self._pane.here)
        if not self.is_open:
            self.show(True)
        elif at + 1 < len(names):
            self._pane.open(names[at + 1])
        else:
            self.show(False)
            self._pane.open(names[0])
        if not self.is_open:
            self._screen.form.resume()
        elif self._screen.has_class("-narrow") or self._pane.has_focus_within:
            self._pane.keys_to.focus()
        self.draw()

    def open(self, view: str) -> None:
        """One of them, with the keys."""
        planned = self._screen.plan()
        if view == "yaml" and planned is not None:
            self._draw_yaml(planned[0])
        self.show(True)
        self._pane.open(view)
        self._pane.keys_to.focus()
        self.draw()

    def leave(self) -> None:
        """The keys go back to the form."""
        if not self._screen.has_class("-wide"):
            self.show(False)
        self._screen.form.resume()

    # what they hold

    def draw(self) -> None:
        """Makes the view in front anew, off the keys' way."""
        if self.is_open:
            self._screen.run_worker(self._draw, group="views", exclusive=True)

    async def _draw(self) -> None:
        planned, draft = self._screen.plan(), self._screen.draft
        if planned is None or draft is None:
            return
        view = self._pane.here
        if view == "yaml":
            self._draw_yaml(planned[0])
            return
        why = wording.sentence(planned[1][0].message) if planned[1] else ""
        try:
            await self._draw_rendered(view, planned[0], why)
        except ConsoleError as error:
            self._say_instead(view, wording.sentence(str(error)))

    async def _draw_rendered(self, view: str, plan: LaunchPlan, why: str) -> None:
        if why:
            self._say_instead(view, f"Not rendered: {why}")
        elif view == "preview":
            manifests = await self._screen.session.render(plan)
            self._pane.preview.show("\n".join(f"---\n{each.text.strip()}" for each in manifests) + "\n")
        elif view == "diff":
            await self._draw_diff(plan)
        else:
            self._pane.command.show_command(self._screen.session.drafting.command(plan))

    def _say_instead(self, view: str, sentence: str) -> None:
        pages = {"preview": self._pane.preview, "diff": self._pane.diff, "command": self._pane.command}
        page = pages[view]
        page.show("\n".join(f"# {line}" for line in wrap(sentence, max(20, page.size.width - 4))))

    async def _draw_diff(self, plan: LaunchPlan) -> None:
        draft = self._screen.draft
        assert draft is not None
        diffs = await self._screen.session.drafting.diff(plan, draft.against)
        added, removed = sum(each.added for each in diffs), sum(each.removed for each in diffs)
        than = draft.against_name or "the recipe's defaults"
        if added or removed:
            counted = Run(f"+{added} ", "ok"), Run(f"−{removed} ", "bad"), Run(f"lines, beside {than}", "dim")
            self._pane.diff_said.runs = counted
        else:
            self._pane.diff_said.runs = (Run(f"The same as {than}.", "dim"),)
        self._pane.diff.show_diffs(diffs)

    def turn_against(self) -> None:
        """Beside the last launch of the recipe, or beside its defaults again."""
        self._screen.run_worker(self._turn_against, group="views-against", exclusive=True)

    async def _turn_against(self) -> None:
        draft = self._screen.draft
        if draft is None:
            return
        if draft.against is not None:
            draft.against, draft.against_name = None, ""
        elif found := await self._screen.session.runs.last_values(draft.recipe.id):
            draft.against_name, draft.against = f"{found[0]}, the last launch", found[1]
        else:
            self._pane.diff_said.runs = (Run("No launch of this recipe is remembered yet.", "waits"),)
            return
        self.draw()

    # YAML

    def _draw_yaml(self, plan: LaunchPlan) -> None:
        """What the form holds, unless somebody is typing here, or what was typed last cannot be taken."""
        draft = self._screen.draft
        if draft is None or ((self._pane.yaml.has_focus or self.remarks) and not self._anew):
            return
        drafting = self._screen.session.drafting
        draft.yaml = drafting.write_yaml(plan, draft.yaml)
        self._pane.show_yaml(draft.yaml, anew=self._anew)
        self._anew = False
        self._pane.say_remarks(drafting.read_yaml(draft.recipe.id, draft.yaml, kept=plan.values).problems)

    def read_yaml(self, text: str) -> None:
        """Into the form, if all of it can be taken; else it says where not, and the form stays."""
        planned, draft = self._screen.plan(), self._screen.draft
        if planned is None or draft is None or self._anew:
            return
        draft.yaml = text
        kept: Mapping[str, Value] = planned[0].values
        read = self._screen.session.drafting.read_yaml(draft.recipe.id, text, kept=kept)
        self.remarks = read.problems
        self._pane.say_remarks(read.problems)
        if read.sound:
            self._screen.form.put_texts(draft.texts_for(read.values))

    def forget_yaml(self) -> None:
        """The form goes on: what was typed as YAML and cannot be taken is written anew (ctrl+z there has it)."""
        if self.remarks and not self._pane.yaml.has_focus:
            self.remarks = ()
            self._pane.say_remarks(())
