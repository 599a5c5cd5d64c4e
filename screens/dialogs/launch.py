"""Dialogs of a launch: confirmation, pasted values or helm commands, profiles, repeating a run."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import getters, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static, TextArea

from console.checkpoints.saved_state import STARTING_WEIGHT_FIELDS, values_to_resume
from console.errors import BadInput, ConsoleError, NotAllowed, NotFound
from console.kube.nested_values import Value, overlay_values
from console.kube.objects.jobset import JobSet
from console.kube.stream_completeness import SERVER_CLOCK
from console.launch.recipes import LaunchPlan, Manifest, join_manifests
from console.launch.run_record import RunRecord, flatten_values
from console.launch.service import avoid_nodes
from console.preflight.all_checks import LAUNCH_CHECKS_TIMEOUT
from console.preflight.check import Check, ResultTally, summarize_unanswered, tally_results
from console.scheduling.launch_alternatives import MAX_ALTERNATIVES, LaunchAlternative
from console.session import Session
from screens import wording
from screens.columns.runs import run_reference
from screens.dialogs.question import Pick, PickEntry, Question
from screens.live_screen import LiveScreen
from screens.sanitize import one_line
from screens.widgets.form.form_model import NAME, LaunchDraft, LaunchRequest
from screens.widgets.form.launch_form import Form
from screens.widgets.form.launch_texts import RecipeTable, free_name, paste_words
from screens.widgets.wrapped_sentence import SentenceLine
from screens.widgets.yaml import YamlText
from screens.wording import Span


class DraftScreen(LiveScreen):
    """A page that has the form of a launch; dialogs fill and show it."""

    recipes = getters.query_one(RecipeTable)
    form = getters.query_one(Form)

    def __init__(self) -> None:
        super().__init__()
        self.draft: LaunchDraft | None = None  # what the form shows
        self.launched: set[str] = set()  # names used from here, which the snapshot may not show yet

    @abstractmethod
    def judge(self) -> None:
        """Show problems, forecast and notes for the typed values."""

    @abstractmethod
    def pick_recipe(self, recipe: str) -> LaunchDraft | None:
        """Select that recipe and return its draft; None if it does not exist."""

    @on(RecipeTable.Highlighted, "RecipeTable")
    async def follow_cursor(self) -> None:
        """Show the form of the recipe under the cursor, after pending keys have been handled."""
        await asyncio.sleep(0)
        if self.is_attached and self.app.connected and (recipe := self.recipes.row) is not None:
            self.pick_recipe(recipe.id)

    def suggest(self, recipe: str, search_text: str = "") -> str:
        search_text = search_text or self.session.launch.suggest_name(recipe)
        return free_name(search_text, self.app.fleet, self.session.namespace, self.launched)


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of the checks before a launch: texts, objects to create, and changes that would make it fit."""

    spans: Sequence[Span]
    manifests: Sequence[Manifest]
    checks: Sequence[Check] = ()
    alternatives: Sequence[LaunchAlternative] = ()


MIN_READING_SECONDS = 1.0  # before a key launches despite a failed check: earlier, it cannot have been read
KEY_REPEAT_SECONDS = 1.0  # seconds within which a key that is held down, or was pressed twice by mistake, comes again


class LaunchLook(Question[bool | LaunchAlternative | ConsoleError]):
    """The review before a launch: it shows what will be created, runs the checks, and asks for confirmation."""

    DEFAULT_CSS: ClassVar[str] = """
    LaunchLook > Vertical { height: 90%; }
    LaunchLook SentenceLine { max-height: 6; padding: 0; }
    LaunchLook.-fails > Vertical { border: round $error; border-title-color: $error; }
    LaunchLook .fails { height: auto; max-height: 40%; }
    LaunchLook YamlText { background: $background; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "launch", "Launch", id="look.launch", priority=True),
        Binding("ctrl+s", "launch_again", "Launch", id="look.again", priority=True, show=False,
                tooltip="Launch, once the checks have ended"),
        Binding("escape", "dismiss(False)", "Back", id="look.back"),
        *(
            Binding(f"{key}", f"change({key})", f"Change {key}", id=f"look.change{key}", priority=True,
                    tooltip="Make this change, with which it would fit now, and look again")
            for key in range(1, MAX_ALTERNATIVES + 1)
        ),
    ]  # fmt: skip

    def __init__(self, name: str, check: Callable[[Callable[[tuple[str, ...]], None]], Awaitable[Checked]]) -> None:
        super().__init__()
        self._plan_name, self._check = name, check
        self._confirmed = False
        self._launch_key_at = time.monotonic()  # when it came last: it may have opened this
        self._refusal: ConsoleError | None = None
        self._alternatives: Sequence[LaunchAlternative] = ()
        self.launches_from: float | None = None  # monotonic; None while the checks run

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(f"Launch {self._plan_name}?")
            yield SentenceLine()
            with VerticalScroll(classes="fails", can_focus=False):
                yield Static(markup=False)
            yield YamlText()
            yield Static(classes="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one(".fails").display = False
        words = Span(f"The API server checks {self._plan_name} …")
        self.query_one(SentenceLine).runs = (Span("◐ ", "waits"), words)
        self._show_hint("⏎ launches when the checks end, unless one fails or has no answer   esc goes back to the form")
        self.query_one(YamlText).focus()
        self._run_checks()

    @work(group="checks")
    async def _run_checks(self) -> None:
        try:
            checked = await self._check(self.show_waiting)
        except ConsoleError as error:
            self._refusal = error
            self.on_screen_resume()
            return
        found = tally_results(checked.checks)
        self.launches_from = time.monotonic() + (MIN_READING_SECONDS if found.objections() else 0)
        if self._confirmed and not found.objections() and self.is_active:
            self.dismiss(True)
        else:
            self._show_checked(checked, found)

    def on_screen_resume(self) -> None:
        """Close the dialog with a pending refusal once it is in front: `dismiss` closes the page in front."""
        if self._refusal is not None and self.is_active:
            self.dismiss(self._refusal)

    def show_waiting(self, waiting_names: tuple[str, ...]) -> None:
        words = f"The checks wait up to {LAUNCH_CHECKS_TIMEOUT:g} s for {', '.join(waiting_names)} …"
        self.query_one(SentenceLine).runs = (Span("◐ ", "waits"), Span(words))

    def _show_checked(self, check_result: Checked, tally: ResultTally) -> None:
        self._alternatives = check_result.alternatives
        self.query_one(SentenceLine).runs = tuple(check_result.spans)
        self.query_one(YamlText).show(join_manifests(check_result.manifests))
        lines = ["\n  ".join((f"✗ {check.lines[0]}", *check.lines[1:])) for check in tally.failing]
        lines += [f"○ {line}" for line in summarize_unanswered(check_result.checks)]
        fails = self.query_one(".fails")
        fails.display = bool(lines)
        fails.query_one(Static).update(Content("\n".join(lines)))
        if doubt := tally.objections(are_named=False):
            self.add_class("-fails")
            title = f"{doubt}. Launch {self._plan_name} all the same?"
            self.query_one(Vertical).border_title = Content(title)
        launches = "launches all the same" if doubt else "launches"
        last = f" to {len(self._alternatives)}" if len(self._alternatives) > 1 else ""
        changes = f"1{last} changes it so that it fits   " if self._alternatives else ""
        self._show_hint(f"⏎ or ctrl+s {launches}   {changes}esc goes back to the form   ↑↓ read")

    def _show_hint(self, sentence: str) -> None:
        self.query_one(".keys", Static).update(Content(sentence))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "change" or parameters[0] in range(1, len(self._alternatives) + 1)

    def action_launch(self) -> None:
        if self.launches_from is None:
            self._confirmed = True
            self._show_hint("Confirmed: launches when the checks end, unless one fails or has no answer   esc cancels")
        elif time.monotonic() >= self.launches_from:
            self.dismiss(True)
        else:
            self._show_hint("Read what failed first; ⏎ once more launches all the same   esc goes back to the form")

    def action_launch_again(self) -> None:
        let_go, self._launch_key_at = time.monotonic() >= self._launch_key_at + KEY_REPEAT_SECONDS, time.monotonic()
        if let_go and self.launches_from is not None:
            self.action_launch()

    def action_change(self, key: int) -> None:
        self.dismiss(self._alternatives[key - 1])


class PasteDialog(Question[str | None]):
    DEFAULT_CSS: ClassVar[str] = """
    PasteDialog > Vertical { max-width: 120; height: 70%; }
    PasteDialog TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", "Fill the form", id="paste.take", priority=True),
        Binding("escape", "dismiss(None)", "Back", id="paste.back", priority=True),
    ]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Fill the form from a text"
            what = "A values.yaml, of this chart or of a script's, or a helm install … --set … line."
            yield Static(what, markup=False)
            yield TextArea("", soft_wrap=False, compact=True)
            yield Static("ctrl+s fills the form   esc goes back   ctrl+z in the form takes it back", classes="keys")

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def action_take(self) -> None:
        text = self.query_one(TextArea).text
        self.dismiss(text if text.strip() else None)


class PasteReport(Question[None]):
    """A dialog that lists which values were taken from a pasted text, and which not and why."""

    DEFAULT_CSS: ClassVar[str] = """
    PasteReport > Vertical { max-width: 110; max-height: 85%; }
    PasteReport VerticalScroll { height: auto; max-height: 100%; }
    PasteReport SentenceLine { max-height: 6; padding: 0; }
    PasteReport .keys { margin-top: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q", "dismiss(None)", "Close", id="report.close")]

    def __init__(self, title: str, lines: Sequence[Sequence[Span]]) -> None:
        super().__init__()
        self._heading, self._lines = title, lines

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = Content(self._heading)
            with VerticalScroll():
                for runs in self._lines:
                    line = SentenceLine()
                    line.runs = tuple(runs)
                    yield line
            yield Static("Enter closes this.", classes="keys")


async def apply_paste(screen: DraftScreen, text: str) -> None:
    """Fill the form from a text, report what was not taken; one undo restores the old values."""
    here = screen.draft
    if here is None or not text.strip():
        return
    launch = screen.app.session.launch
    read = await launch.plan_texts.parse_pasted(here.recipe.id, text, variables=await launch.profiles.place_variables())
    if not read.is_valid:
        await screen.app.push_screen_wait(PasteReport("Nothing was imported", paste_words(read, taken_count=0)))
        return
    draft = screen.pick_recipe(read.recipe) if read.recipe and read.recipe != here.recipe.id else here
    if draft is None:
        return
    before = dict(draft.model.texts)
    plan, _ = draft.plan(screen.app.session.namespace)
    queue = {"queue": plan.values["queue"]} if "queue" in plan.values else {}
    # A command says all there is; values alone are laid over what is there.
    below = queue if read.name or read.recipe else plan.values
    name = screen.suggest(draft.recipe.id, read.name) if read.name else ""
    screen.form.put_texts(draft.texts_for(overlay_values(below, read.values), name))
    taken = sum(draft.model.texts[path] != text for path, text in before.items())
    head = f"{draft.recipe.title}: {wording.count(taken, 'field')} filled"
    if draft is not here:
        words = f"These are values of {draft.recipe.id}: its form is filled; that of {here.recipe.id} is not changed."
        screen.app.notify(words, severity="warning", timeout=10, markup=False)
    here_in = screen.app.session.namespace
    if read.namespace and read.namespace != here_in:
        words = f"The text says namespace {read.namespace}; launches go to {here_in}. N, in the list, switches."
        screen.app.notify(words, severity="warning", timeout=10, markup=False)
    if read.left_out or read.notes:
        await screen.app.push_screen_wait(PasteReport(head, paste_words(read, taken_count=taken)))
    else:
        screen.app.notify(f"{head}; ctrl+z takes it back.", markup=False)
    screen.form.go(NAME)


def fill_from_request(screen: DraftScreen, launch_request: LaunchRequest) -> bool:
    """Fill the form as another screen requested; one undo restores the old values. False if there is no such recipe."""
    draft = screen.pick_recipe(launch_request.recipe) if launch_request.recipe else screen.draft
    if draft is None:
        screen.app.notify(f"The chart has no recipe {launch_request.recipe}.", severity="error", markup=False)
        return False
    values = launch_request.values
    if launch_request.merges_values:
        values = overlay_values(draft.plan(screen.app.session.namespace)[0].values, values)
    else:
        draft.compared_values, draft.compared_name = launch_request.compared_values, launch_request.compared_name
    name = screen.suggest(draft.recipe.id, launch_request.name) if launch_request.name else ""
    screen.form.show(draft.model)  # without what was searched in it
    screen.form.put_texts(draft.texts_for(values, name))
    unknown_keys = draft.unknown_keys(launch_request.values)
    lost = f" Not values of this chart, skipped: {', '.join(unknown_keys)}." if unknown_keys else ""
    message = launch_request.message or f"{draft.recipe.title} with the values that you last entered."
    screen.app.notify(message + lost, markup=False, severity="warning" if lost else "information")
    return True


def launch_like(screen: LiveScreen, run: RunRecord, other: RunRecord | None = None, *, at_once: bool = False) -> None:
    """Open the launch form (`at_once`: the review too) with a run's values, compared with `other`, else its own."""
    now = SERVER_CLOCK.now()
    against = run if other is None or other.recipe != run.recipe else other
    wish = LaunchRequest(
        run.recipe,
        run.values,
        run.name,
        against.values,
        run_reference(against, now),
        message=_values_words(run),
        at_once=at_once,
    )
    screen.app.open_launch(wish)


def _values_words(run: RunRecord) -> str:
    left = f" Not kept, because secret: {', '.join(run.left_out)}." if run.left_out else ""
    return one_line(f"Values of {run.name}, launched {wording.moment(run.launched, SERVER_CLOCK.now())}.{left}")


async def launch_like_job(
    screen: LiveScreen, jobset: JobSet, avoided_nodes: Sequence[str] = (), *, resume: bool = False
) -> None:
    """Open the launch form with the values of a job, to launch it again, resumed or on other nodes."""
    if not (jobset.release or jobset.recipe):
        screen.notify(f"{jobset.name} was not launched from a recipe.", severity="warning", markup=False)
        await screen.app.action_switch_mode("launch")
        return
    with screen.report_errors(f"The values of {jobset.name} could not be read"):
        try:
            releases, runs = screen.session.launch.releases, screen.session.launch.runs
            await runs.has_open_runs()
            if (run := runs.find_launch(jobset)) is not None:
                message, plan = _values_words(run), LaunchPlan(run.recipe, run.name, run.namespace, run.values)
            elif jobset.release:
                message = f"Values of the release of {jobset.name}, which others may have written: look through them, "
                message += "for the run history of this account does not know its launch."
                plan = await releases.plan_of_release(jobset.namespace, jobset.release)
            else:
                plan = releases.plan_of_job(jobset)
                message = f"Recipe, GPUs, queue, priority, restarts and time kept of {jobset.name}; "
                message += "the other values are the recipe's, for no Helm release holds those of the job."
        except (BadInput, NotFound, NotAllowed) as error:
            screen.notify(str(error), title=f"Not the values of {jobset.name}", severity="warning", markup=False)
            await screen.app.action_switch_mode("launch")
            return
        name = f"the job {jobset.name}"
        values = plan.values
        if resume:
            screen.notify("Looking for its last complete checkpoint…", title=jobset.name, markup=False)
            begin, words = await resume_values(screen.session, jobset.key, plan)
            values, message = overlay_values(values, begin), f"{message} {words}"
        if avoided_nodes:
            values = avoid_nodes(values, avoided_nodes)
            message += f" Not on {', '.join(avoided_nodes)}. {jobset.name} runs on until it is stopped."
        if not screen.is_current:
            words = f"The launch form of {jobset.name} did not open: another page is in front by now."
            screen.notify(words, severity="warning", markup=False)
            return
        wish = LaunchRequest(plan.recipe, values, plan.name, plan.values, name, message=message)
        screen.app.open_launch(wish)


async def resume_values(session: Session, key: tuple[str, str], plan: LaunchPlan) -> tuple[Mapping[str, Value], str]:
    """(values by which a launch continues from the last complete checkpoint of a job, a sentence on that)."""
    paths = {field.path for field in session.launch.catalogue.fields(plan.recipe)}
    if not paths & {*STARTING_WEIGHT_FIELDS}:
        return {}, "Where it begins is up to its program: the recipe has no field for it."
    saved = session.jobs.saved_state(key)
    if saved is None or saved.survey is None:
        saved = await session.checkpoints.read_job(*key)
    return values_to_resume(saved, paths, session.fleet.jobsets.get(key))


def open_job(screen: LiveScreen, run: RunRecord) -> None:
    """Open the page of a run's job, if it still exists and is the same job."""
    jobset = screen.app.fleet.jobsets.get(run.key)
    if jobset is None or (run.uid and jobset.uid != run.uid):
        screen.notify(f"The job {run.name} is not in this cluster any more.", severity="warning", markup=False)
        return
    screen.app.open_page("job", *run.key)


async def pick_profile(screen: DraftScreen) -> None:
    """Merge a chosen profile into the form; one undo restores the old values."""
    profiles, draft = screen.app.session.launch.profiles, screen.draft
    if draft is None:
        return
    names, default = await profiles.names(), await profiles.default_name()
    if not names:
        screen.app.notify("There are no profiles. a4 profiles NAME --set queue=a4 makes one.", markup=False)
        return
    choices = [PickEntry(name, "the default" if name == default else "", is_current=name == default) for name in names]
    picked = await screen.app.push_screen_wait(Pick("Apply which profile to the form?", choices))
    if picked:
        await merge_profile(screen, draft, picked)


async def merge_profile(
    screen: DraftScreen, draft: LaunchDraft, name: str, untouched_texts: Mapping[str, str] | None = None
) -> None:
    try:
        values = await screen.app.session.launch.profiles.values(name, draft.recipe.id)
    except ConsoleError as error:
        screen.app.notify(str(error), title="The profile was not used", severity="error", timeout=8, markup=False)
        return
    # The queue follows the cluster by itself until somebody types one.
    now = {path: text for path, text in draft.model.texts.items() if path != draft.queue_path}
    if untouched_texts is not None and now != {path: untouched_texts[path] for path in now}:
        return
    plan, _ = draft.plan(screen.app.session.namespace)
    texts = draft.texts_for(overlay_values(plan.values, values))
    if screen.draft is draft:
        screen.form.put_texts(texts)
    else:
        draft.model.texts.update(texts)
    what = wording.count(len(list(flatten_values(values))), "value")
    screen.app.notify(f"Profile {name}: {what}.", timeout=3, markup=False)
