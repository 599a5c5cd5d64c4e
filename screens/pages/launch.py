"""The launch page: choose a recipe, fill in its form, review what will be created, launch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import ClassVar

from textual import events, getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.timer import Timer

from console.errors import ConsoleError, ReleaseFailed, Unreachable
from console.kube.objects.jobset import recipe_kind
from console.kube.snapshot import Fleet
from console.launch.field_choices import FieldChoices
from console.launch.recipes import LaunchPlan, Recipe
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.launch_alternatives import LaunchAlternative, launch_alternatives
from console.scheduling.launch_forecast import (
    LaunchDemand,
    LaunchVerdict,
    choose_queue,
    closed_queue_forecast,
    forecast,
)
from console.session import Session, read_priorities
from screens.columns.column import RowKey
from screens.dialogs.launch import (
    Checked,
    DraftScreen,
    LaunchLook,
    PasteDialog,
    apply_paste,
    fill_from_request,
    merge_profile,
    pick_profile,
)
from screens.dialogs.question import Confirm
from screens.widgets.form.editors import Pasted
from screens.widgets.form.form_model import NAME, LaunchDraft
from screens.widgets.form.launch_form import Form
from screens.widgets.form.launch_texts import (
    LIST_HELP,
    GoogleChoices,
    LaunchHead,
    RecipeTable,
    alternative_words,
    choices_of,
    field_facts,
    fit_words,
    form_summary,
    help_words,
    plan_words,
)
from screens.widgets.form.launch_views import VIEWS, LaunchPane, Planned, PreflightLine
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine
from screens.wording import Span, count

TALL_TERMINAL_LINES = 40  # lines of a terminal from which on what a recipe does is shown whole beside the form too
TYPING_PAUSE_SECONDS = 0.25  # seconds without a key after which the views of a launch are made anew
START_CACHE = 15.0  # seconds after which the start of a launch is asked for again
RELIST_SECONDS = 30.0  # seconds after which claims, Secrets and such are listed again while a form is open


class LaunchScreen(DraftScreen):
    """The Launch page: recipes, the form of one beside them, and views of the result if there is room."""

    CSS_PATH = "launch.tcss"
    KINDS = ("localqueues", "clusterqueues", "jobsets")
    CHANGES_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "launch", "Launch", id="launch.launch", tooltip="Check with the server, look once, launch"),
        Binding("ctrl+t", "advanced", "All fields", id="launch.advanced", tooltip="Show or hide the advanced fields"),
        Binding("ctrl+o", "views", "Views", id="launch.views",
                tooltip="Show what will be created; again: its YAML, what differs, the helm command, nothing"),
        *(Binding(key, f"view('{view}')", title, show=False, id=f"launch.{view}") for view, key, title in VIEWS),
        Binding("f6,ctrl+v", "paste", "Paste", id="launch.paste",
                tooltip="A values.yaml or a helm install line fills the form"),
        Binding("f8", "profile", "Profile", show=False, id="launch.profile",
                tooltip="Apply the values of a profile to the form"),
        Binding("f9", "preflight", "Preflight", show=False, id="launch.preflight",
                tooltip="What this launch needs of cluster and project, checked"),
        Binding("ctrl+f", "search", "Search", show=False, id="launch.search", tooltip="Fields by title, path or help"),
    ]  # fmt: skip

    head = getters.query_one(LaunchHead)
    note = getters.query_one("#help", SentenceLine)
    pane = getters.query_one(LaunchPane)
    sum_line = getters.query_one("#sum", SentenceLine)

    def __init__(self) -> None:
        super().__init__()
        self._drafts: dict[str, LaunchDraft] = {}
        """The draft of each recipe opened so far: typed values stay while another recipe is shown."""
        self._planned: Planned | None = None
        self._validation_due = False
        self._views_due: Timer | None = None
        self._choices_demand: LaunchDemand | None = None  # what the queues' words are about
        self._start: tuple[LaunchDemand, ExpectedStart | None, float] | None = None  # of what, and when it was asked
        self._forecast_running = False
        self._listed_choices: Mapping[str, FieldChoices] = {}
        self._listed_namespace = ""
        self._google_choices = GoogleChoices()

    def body(self) -> ComposeResult:
        with Horizontal():
            yield RecipeTable()
            with Vertical(id="middle"):
                yield LaunchHead()
                yield (form := Form())
                yield SentenceLine(id="help")
                yield PreflightLine()
                yield SentenceLine(id="sum")
            yield LaunchPane(form, self.plan, lambda: self.session.launch)

    def on_mount(self) -> None:
        self.note.cut_mark = " … f1 shows all"
        self.recipes.focus()
        self.set_interval(RELIST_SECONDS, self._list_choices)

    def show_fleet(self, fleet: Fleet) -> None:
        """Update the choices from the cluster; typed text stays."""
        if not self.app.connected:
            return
        if not self.recipes.listing.rows:
            with self.report_errors("The recipes cannot be read"):
                found: dict[RowKey, Recipe] = {(each.id,): each for each in self.session.launch.catalogue.recipes()}
                self.recipes.show_trouble(RecipeTable.EMPTY)
                self.recipes.show_rows(found)
                self.head.show_recipes(found.values())
                self._read_forms([recipe.id for recipe in found.values()])
        if self.session.namespace != self._listed_namespace:
            self._list_choices()
        self._show_offers()
        self._show_forecast()
        if self.draft is not None and not self._forecast_running:
            self._follow_start()
        # Fill in the launch that another screen requested, once the recipes are loaded.
        wish = self.app.launch_request
        if wish is None or not self.recipes.listing.rows:
            return
        self.app.launch_request = None
        self.open_recipe_form()
        if fill_from_request(self, wish):
            self.focus_first_problem()
            self.pane.draw()
            if wish.at_once:
                self.action_launch()

    @work(group="forms", exclusive=True)
    async def _read_forms(self, recipes: list[str]) -> None:
        """Build all recipes' forms in the background, since each takes a while the first time."""
        session = self.session
        await asyncio.to_thread(lambda: [session.launch.catalogue.fields(recipe) for recipe in recipes])

    # what there is to choose from

    def _show_offers(self) -> None:
        self._choices_demand = self._typed_demand(["gpus"])
        seen = choices_of(self.app.fleet, self.session.namespace, self._choices_demand)
        self.form.set_choices(self._google_choices.merge_into({**seen, **self._listed_choices}))

    @work(group="choices", exclusive=True)
    async def _list_choices(self) -> None:
        """List the choices that are not watched: claims, Secrets, service accounts, priority classes, used images."""
        if not (self.app.connected and self.is_current):
            return
        self._listed_namespace = self.session.namespace
        await read_priorities(self.session)
        self._listed_choices = await self.session.read_choices()
        self._show_offers()

    @on(Form.Asked)
    def ask_google(self, event: Form.Asked) -> None:
        """Fetch choices that only Google has when the person opens them."""
        event.stop()
        if self._google_choices.begin_asking(event.kind):
            self._show_offers()
            self._ask_google(event.kind)

    @work(group="google")
    async def _ask_google(self, kind: str) -> None:
        await self._google_choices.ask(self.session, kind)
        self._show_offers()

    @on(Form.Filled)
    def show_filled_fields(self, event: Form.Filled) -> None:
        event.stop()
        fields = count(event.count, "field")
        self.notify(f"{event.name} fills {fields}; ctrl+z takes it back.", timeout=4, markup=False)

    # the form

    def open_recipe_form(self) -> None:
        """Switch to the form of the recipe under the cursor at once."""
        recipe = self.recipes.row
        if recipe is not None and self.app.connected and (self.draft is None or recipe != self.draft.recipe):
            self.show_draft(self.draft_of(recipe))

    def draft_of(self, recipe: Recipe) -> LaunchDraft:
        """The draft of that recipe; a new one has an unused name and the queue that `a4 launch` would choose."""
        if recipe.id not in self._drafts:
            draft = self._drafts[recipe.id] = LaunchDraft(
                recipe, self.session.launch.catalogue.fields(recipe.id), self.suggest(recipe.id)
            )
            self._follow_queue(draft)
            self._merge_default_profile(draft, dict(draft.model.texts))
        return self._drafts[recipe.id]

    def _follow_queue(self, draft: LaunchDraft) -> bool:
        """Fill in the recommended queue unless the person typed one; returns whether it changed."""
        ask = self.session.launch.demand(draft.plan(self.session.namespace)[0])
        return draft.follow_queue(choose_queue(self.app.fleet, ask))

    def show_draft(self, draft: LaunchDraft) -> None:
        self.draft = draft
        self._show_recipe_words()
        self.form.show(draft.model)
        self._show_offers()
        self.judge()
        self._read_saves(draft)
        self.pane.show_draft(draft)

    @work(group="saves", exclusive=True)
    async def _read_saves(self, draft: LaunchDraft) -> None:
        """Read from the history how long checkpoints of earlier runs took, for the notes on the plan."""
        await self.session.launch.read_saves(draft.recipe.id)
        if self.draft is draft:
            self.judge()

    def _show_recipe_words(self) -> None:
        if self.draft is not None:
            brief = self.has_class("-typing") and self.size.height < TALL_TERMINAL_LINES
            self.head.show_recipe(self.draft.recipe, is_brief=brief, read_only=self.app.settings.read_only)

    # what is typed

    def plan(self) -> Planned | None:
        """The plan as typed and all its problems; None without a form or a connection."""
        if self.draft is None or not self.app.connected:
            return None
        self.form.commit_editor()
        if self.form.cursor_path != self.draft.queue_path and self._follow_queue(self.draft):
            self.form.page.redraw()
        plan, unread = self.draft.plan(self.session.namespace)
        if unread:  # such a text is not in the plan, which is the same once the text is gone
            self._planned = None
            return plan, (*unread, *self.session.launch.catalogue.plan_problems(plan))
        if self._planned is None or self._planned[0] != plan:
            self._planned = plan, self.session.launch.catalogue.plan_problems(plan)
        return self._planned

    @on(Form.Changed)
    def accept_typing(self, event: Form.Changed) -> None:
        """Validate after the key press is handled; the views follow when typing pauses."""
        event.stop()
        if self.draft is not None:
            self.draft.server_problems = {}
            self.pane.forget_yaml()
        if not self._validation_due:
            self._validation_due = True
            self.call_later(self.judge)

    def judge(self) -> None:
        self._validation_due = False
        planned = self.plan()
        if planned is None or self.draft is None:
            return
        plan, problems = planned
        self.head.show_notes(() if problems else self.session.launch.notes(plan), is_valid=not problems)
        self._show_forecast()
        self._check_soon()
        if self._views_due is not None:
            self._views_due.stop()
        self._views_due = self.set_timer(TYPING_PAUSE_SECONDS, self._on_typing_paused)

    def _on_typing_paused(self) -> None:
        self.pane.draw()
        self._follow_start()

    @work(group="start")
    async def _follow_start(self) -> None:
        """Ask when the typed launch would start, one request at a time; after a change meanwhile, ask again."""
        if self._forecast_running:
            return
        self._forecast_running = True
        with suppress(Unreachable):  # the session was closed meanwhile, which the title says
            while (ask := self._waiting_demand()) is not None:
                start = await self.session.forecasts.launch_start(ask)
                self._start = ask, start, time.monotonic()
                self._show_forecast()
        self._forecast_running = False

    def _waiting_demand(self) -> LaunchDemand | None:
        """The GPUs that the typed plan requests, if its expected start is worth computing; else None."""
        ask = self._typed_demand() if self.app.connected and self.is_current else None
        if ask is None or forecast(self.app.fleet, ask).verdict is not LaunchVerdict.WAITS:
            return None
        known = self._start is not None and self._start[0] == ask and time.monotonic() < self._start[2] + START_CACHE
        return None if known else ask

    def _typed_demand(self, needed_fields: Collection[str] = ("gpus", "queue")) -> LaunchDemand | None:
        """The demand of the typed plan; None while one of the needed fields is wrong."""
        planned = self.plan()
        if planned is None or any(problem.path in needed_fields for problem in planned[1]):
            return None
        return self.session.launch.demand(planned[0])

    def _check_soon(self) -> None:
        """Schedule the preflight checks while the form is being filled in."""
        planned = self.plan() if self.has_class("-typing") else None
        if planned is not None and not planned[1]:
            self.query_one(PreflightLine).check_when_typing_pauses(self.session, planned[0])

    def _show_forecast(self) -> None:
        planned = self.plan()
        if planned is None or self.draft is None:
            return
        plan, problems = planned
        self.sum_line.runs = tuple(form_summary(plan, self.draft, problems))
        ask, found = self._typed_demand(), {problem.path: problem.message for problem in reversed(problems)}
        closed = closed_queue_forecast(self.app.fleet, ask) if ask is not None and ask.queue else None
        if closed is not None and closed.verdict is LaunchVerdict.NEVER:
            found["queue"] = closed.sentence
        self.form.show_problems({**self.draft.server_problems, **found})
        start = self._start[1] if self._start is not None and self._start[0] == ask else None
        self.head.show_fit(self.app.fleet, ask, start)
        if self._typed_demand(["gpus"]) != self._choices_demand:
            self._show_offers()

    @on(Form.Entered)
    def show_field(self, event: Form.Entered) -> None:
        """Show help and problems of the focused field."""
        event.stop()
        self.note.runs = tuple(help_words(event.field, event.problem))
        self.query_one(PreflightLine).postpone_checks()

    @on(ResourceTable.Opened, "RecipeTable")
    def enter_form(self, event: ResourceTable.Opened) -> None:
        event.stop()
        self.open_recipe_form()
        self.focus_first_problem()

    def focus_first_problem(self) -> None:
        """Focus the first field that is wrong or missing, else the number of GPUs (the name is filled in already)."""
        planned = self.plan()
        first = planned[1][0].path if planned is not None and planned[1] else "gpus"
        self.form.go(first if self.form.model.owner(first) else NAME)

    def action_search(self) -> None:
        self.open_recipe_form()
        self.form.action_search()

    def action_advanced(self) -> None:
        """Show or hide the advanced fields; typed text stays."""
        self.open_recipe_form()
        self.form.set_advanced(not self.form.model.advanced)
        self.refresh_bindings()

    def hides(self) -> dict[str, str]:
        if not self.is_mounted:
            return {}
        advanced = {"advanced": "Hide advanced"} if self.form.model.advanced else {}
        return {**advanced, **({"views": self.pane.views_key_label} if self.pane.is_open else {})}

    def help_about(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        field = self.form.model.by_path.get(self.form.cursor_path)
        if field is None:
            return super().help_about()
        return field.title, tuple(field_facts(field, self.form.model.problems.get(field.path, "")))

    # the views

    def action_views(self) -> None:
        self.open_recipe_form()
        self.pane.show_next_view()

    def action_view(self, view: str) -> None:
        self.open_recipe_form()
        self.pane.open(view)

    def action_against(self) -> None:
        self.pane.toggle_comparison_base()

    def action_preflight(self) -> None:
        self.open_recipe_form()
        if (planned := self.plan()) is not None:
            self.app.open_page("preflight", planned[0])

    # from a text, or from another screen

    @on(Pasted)
    def accept_paste(self, event: Pasted) -> None:
        """Take a values file or helm command that was pasted into a field."""
        event.stop()
        self.action_paste(event.text)

    def on_paste(self, event: events.Paste) -> None:
        """Take a pasted values file or helm command while the recipe list is focused."""
        if self.focused is self.recipes:
            event.stop()
            self.action_paste(event.text)

    @work(group="actions")
    async def action_paste(self, text: str | None = None) -> None:
        self.open_recipe_form()
        text = text if text is not None else await self.app.push_screen_wait(PasteDialog())
        with self.report_errors("The text could not be read"):
            await apply_paste(self, text or "")

    @work(group="profile")
    async def _merge_default_profile(self, draft: LaunchDraft, untouched_texts: dict[str, str]) -> None:
        """Merge the default profile into a new form, unless it was changed meanwhile."""
        if name := await self.session.launch.profiles.default_name():
            await merge_profile(self, draft, name, untouched_texts)

    @work(group="actions")
    async def action_profile(self) -> None:
        self.open_recipe_form()
        await pick_profile(self)

    def pick_recipe(self, recipe: str) -> LaunchDraft | None:
        found = self.recipes.listing.rows.get((recipe,))
        if found is None:
            return None
        if not self.recipes.move_to((recipe,)):  # a search leaves it out, and the cursor would name another recipe
            self.drop_filter(self.recipes)
            self.recipes.move_to((recipe,))
        draft = self.draft_of(found)
        if draft is not self.draft:
            self.show_draft(draft)
        return draft

    # off

    def action_launch(self) -> None:
        """Dry-run the shown form, ask for confirmation, and launch."""
        if self.recipes.has_focus:
            self.open_recipe_form()
        planned = self.plan()
        if planned is None or self.draft is None:
            return
        plan, problems = planned
        if self.pane.remarks:
            self.notify(str(self.pane.remarks[0]), title="Not yet: the YAML", severity="warning", markup=False)
            self.action_view("yaml")
        elif problems:
            self.notify(problems[0].message, title="Not yet", severity="warning", markup=False)
            self.form.go(problems[0].path)
        else:
            self._review_and_launch(self.draft, plan)

    @work(group="actions", exclusive=True)
    async def _review_and_launch(self, draft: LaunchDraft, plan: LaunchPlan) -> None:
        """Dry-run the plan, ask for confirmation and launch it; on refusal show why and keep the form."""
        session = self.session
        try:
            plan = await session.launch.with_flex_start(plan)
            look = LaunchLook(plan.name, partial(_check_launch, session, draft, plan))
            answer = await self.app.push_screen_wait(look)
            if isinstance(answer, ConsoleError):
                raise answer
            if isinstance(answer, LaunchAlternative):
                _apply_alternative(self, draft, answer)
            if answer is not True:
                self.judge()
                return
            self.sum_line.runs = (Span("◐ ", "waits"), Span(f"Launching {plan.name} …"))
            job = await session.launch.install(plan)
        except ConsoleError as error:
            await _show_refusal(self, draft, plan, error)
            return
        self.launched.add(job)
        self.app.notify(f"{job} is launched.", markup=False)
        draft.rename(self.suggest(draft.recipe.id))
        self.form.show(draft.model, leave=True)
        self.set_focus(self.recipes)
        self.judge()
        self.app.launched = plan.namespace, job
        await self.app.action_switch_mode("jobs")  # the new job is no part of the one whose page was open
        self.app.open_page("job", plan.namespace, job, recipe_kind(plan.recipe))
        refused = await session.launch.wait_for_refusal(plan.namespace, job)
        if refused is not None:
            why, title = ". ".join(filter(None, (refused.sentence, refused.next))), f"{job} has no pods yet"
            self.app.notify(f"{why}.", title=title, severity="warning", timeout=12, markup=False)

    # the way back

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """On a narrow screen, hide the recipes while the form is focused."""
        self.set_class(event.widget is not self.recipes, "-typing")
        if event.widget is self.recipes:
            self.note.runs = (LIST_HELP,)
        self._show_recipe_words()
        self._check_soon()

    @on(Form.Left)
    def back_to_recipes(self, event: Form.Left) -> None:
        event.stop()
        self.set_focus(self.recipes)

    def action_back(self) -> None:
        """Go from a view to the form; from the recipes, leave the page."""
        if self.pane.has_focus_within:
            self.pane.leave()
        else:
            super().action_back()

    async def on_resize(self, event: events.Resize) -> None:
        """Show the views as a third column on wide screens; pending keys are handled before the new layout."""
        width, height = event.size
        self.update_classes({"-wide": width >= 170, "-narrow": width < 100, "-slim": width < 130, "-low": height < 30})
        self.call_after_refresh(self.pane.draw)
        await asyncio.sleep(0)


async def _check_launch(
    session: Session, draft: LaunchDraft, plan: LaunchPlan, on_wait: Callable[[tuple[str, ...]], None]
) -> Checked:
    launcher = session.launch.launcher()
    manifests = await launcher.render(plan)
    _, checks = await asyncio.gather(launcher.dry_run(plan), session.preflight.before_launch(plan, on_wait))
    fleet, ask = session.fleet, session.launch.demand(plan)
    others = await asyncio.to_thread(launch_alternatives, fleet, ask)
    fits = [*fit_words(fleet, ask), *alternative_words(others)]
    kinds = ", ".join(f"{manifest.kind} {manifest.name}" for manifest in manifests)
    words = [Span("✓ ", "ok"), Span("The API server accepts it. "), *plan_words(plan, draft), Span("  "), *fits]
    words += [Span("  Creates: ", "dim"), Span(kinds)]
    if unkept := await session.launch.runs.history.check_writes():
        words.append(Span(f"  {unkept} The run will not be in it.", "waits"))
    return Checked(words, manifests, checks, others)


def _apply_alternative(screen: LaunchScreen, draft: LaunchDraft, alternative: LaunchAlternative) -> None:
    """Make a suggested change in the launch form, undoable at once, and open the review again."""
    path = draft.queue_path if alternative.path == "queue" else alternative.path
    screen.form.put_texts({**draft.model.texts, path: str(alternative.value)})
    field = draft.model.by_path[path]
    screen.app.notify(f"{field.title} is {alternative.value} now; ctrl+z in the form takes it back.", markup=False)
    screen.call_later(screen.run_action, "launch")


async def _show_refusal(screen: LaunchScreen, draft: LaunchDraft, plan: LaunchPlan, error: ConsoleError) -> None:
    """Show the API server's refusal of a launch, and offer to remove what was already created."""
    faults = screen.app.session.launch.plan_texts.locate_problems(plan, error)
    draft.server_problems = {fault.path: fault.message for fault in reversed(faults)}
    screen.app.notify(str(error), title=f"{plan.name} was not launched", severity="error", timeout=12, markup=False)
    screen.judge()
    if draft.server_problems:
        screen.form.go(next(iter(draft.server_problems)))
    if isinstance(error, ReleaseFailed) and error.half_made:
        await _offer_removal(screen, *error.half_made)


async def _offer_removal(screen: LaunchScreen, namespace: str, name: str) -> None:
    lines = [f"The launch of {name} in {namespace} failed, and some of its objects may still exist."]
    question = Confirm(f"Remove what is left of {name}?", lines, verb="Remove", keep="Keep it")
    if not await screen.app.push_screen_wait(question):
        return
    try:
        report = await screen.app.session.launch.stop(namespace, name)
    except ConsoleError as error:
        screen.app.notify(str(error), title=f"{name} is still there", severity="error", timeout=12, markup=False)
        return
    gone = ", ".join(report.deleted)
    screen.app.notify(f"Removed: {gone}." if gone else "Nothing was left to remove.", title=name, markup=False)
