"""Two conversations of the launch screen: off with a plan, and a pasted text into the form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from console.errors import ConsoleError, ReleaseFailed
from console.models.check import tally
from console.models.values import overlay
from screens import wording
from screens.modals.confirm import Confirm
from screens.modals.launch_look import LaunchLook
from screens.modals.paste import PasteReport
from screens.widgets.job_head import tab_of
from screens.widgets.launch_draft import NAME
from screens.widgets.launch_words import fit_words, paste_words, plan_words
from screens.wording import Run

if TYPE_CHECKING:
    from console.models.check import Check
    from console.models.draft import Draft
    from console.models.launch import LaunchPlan, Manifest, Recipe
    from screens.base import LiveApp
    from screens.widgets.form import Form
    from screens.widgets.launch_draft import LaunchDraft
    from screens.widgets.launch_views import LaunchViews
    from screens.widgets.launch_wish import LaunchWish
    from screens.widgets.sentence_line import SentenceLine


class Launching(Protocol):
    """What both need of the screen."""

    app: LiveApp
    form: Form
    draft: LaunchDraft | None
    sum_line: SentenceLine
    launched: set[str]
    views: LaunchViews

    def judge(self) -> None:
        """Say anew what is wrong."""

    def leave_form(self) -> None:
        """Give the keys to the list of recipes."""

    def suggest(self, recipe: str, wanted: str = "") -> str:
        """A name that is free."""

    def draft_of(self, recipe: Recipe) -> LaunchDraft:
        """That recipe's draft."""

    def pick_recipe(self, recipe: str) -> LaunchDraft | None:
        """Put that recipe's form on the screen."""


async def launch_it(screen: Launching, draft: LaunchDraft, plan: LaunchPlan) -> None:
    """The server checks, a person looks once, and it is launched; else it is said why not, and the form stays."""
    session = screen.app.session
    screen.sum_line.runs = (Run("◐ ", "waits"), Run(f"The API server checks {plan.name} …"))
    try:
        manifests = await session.render(plan)
        _, checks = await asyncio.gather(session.check(plan), session.preflight.before_launch(plan))
        if not await _agreed(screen, draft, plan, manifests, checks):
            screen.judge()
            return
        screen.sum_line.runs = (Run("◐ ", "waits"), Run(f"Launching {plan.name} …"))
        job = await session.launch(plan)
    except ConsoleError as error:
        await _refused(screen, draft, plan, error)
        return
    screen.launched.add(job)
    screen.app.notify(f"{job} is launched.", title=plan.name, markup=False)
    draft.rename(screen.suggest(draft.recipe.id))
    screen.form.show(draft.model, leave=True)
    screen.leave_form()
    screen.judge()
    screen.app.launched = plan.namespace, job
    await screen.app.switch_mode("jobs")
    await screen.app.close_pages()  # the new job is no part of the one whose page was open
    screen.app.open_page("job", plan.namespace, job, tab_of(plan.recipe))
    refused = await session.refused_at_start(plan.namespace, job)
    if refused is not None:
        words = f"{refused.sentence}. {refused.next}."
        screen.app.notify(words, title=f"{job} gets no pods", severity="error", timeout=12, markup=False)


async def _agreed(
    screen: Launching, draft: LaunchDraft, plan: LaunchPlan, manifests: tuple[Manifest, ...], checks: tuple[Check, ...]
) -> bool:
    words = [
        Run("✓ ", "ok"),
        Run("The API server accepts it. "),
        *plan_words(plan, draft),
        Run("  "),
        *fit_words(screen.app.fleet, screen.app.session.drafting.ask(plan)),
    ]
    kinds = ", ".join(f"{manifest.kind} {manifest.name}" for manifest in manifests)
    words += [Run("  Creates: ", "dim"), Run(kinds)]
    title = f"Launch {plan.name}?"
    if failing := tally(checks).failing:
        title = f"{wording.count(len(failing), 'check')} failed. Launch {plan.name} all the same?"
    return await screen.app.push_screen_wait(LaunchLook(title, words, manifests, checks)) is True


async def _refused(screen: Launching, draft: LaunchDraft, plan: LaunchPlan, error: ConsoleError) -> None:
    """What the server says goes to the field it speaks of, and into a toast; what is left of it may be removed."""
    faults = screen.app.session.drafting.faults(plan, error)
    draft.server_says = {fault.path: fault.message for fault in reversed(faults)}
    screen.app.notify(str(error), title=f"{plan.name} was not launched", severity="error", timeout=12, markup=False)
    screen.judge()
    if draft.server_says:
        screen.form.go(next(iter(draft.server_says)))
    if isinstance(error, ReleaseFailed) and error.leftover:
        await _offer_removal(screen, *error.leftover)


async def _offer_removal(screen: Launching, namespace: str, name: str) -> None:
    lines = [f"The launch of {name} in {namespace} failed, and some of its objects may be there still."]
    agreed = await screen.app.push_screen_wait(
        Confirm(f"Remove what is left of {name}?", lines, verb="Remove", keep="Leave it")
    )
    if not agreed:
        return
    try:
        report = await screen.app.session.stop_job(namespace, name)
    except ConsoleError as error:
        screen.app.notify(str(error), title=f"{name} is still there", severity="error", timeout=12, markup=False)
        return
    gone = ", ".join(report.deleted)
    screen.app.notify(f"Removed: {gone}." if gone else "Nothing was left.", title=name, markup=False)


async def paste_it(screen: Launching, text: str) -> None:
    """Fills the form with what a text says; what could not be taken is named, and what was there is one undo away."""
    here = screen.draft
    if here is None or not text.strip():
        return
    session = screen.app.session
    read = await session.drafting.paste(here.recipe.id, text, variables=await session.profiles.variables())
    if not read.sound:
        head = "Nothing was taken"
        await screen.app.push_screen_wait(PasteReport(head, paste_words(read, taken=0)))
        return
    draft = screen.pick_recipe(read.recipe) if read.recipe and read.recipe != here.recipe.id else here
    if draft is None:
        return
    taken = _fill(screen, draft, read)
    if draft is not here:
        words = (
            f"These are values of {draft.recipe.id}: its form was filled, and that of {here.recipe.id} left as it was."
        )
        screen.app.notify(words, severity="warning", timeout=10, markup=False)
    here_in = screen.app.session.namespace
    if read.namespace and read.namespace != here_in:
        words = f"The text says namespace {read.namespace}; launches go to {here_in}. N, in the list, switches."
        screen.app.notify(words, severity="warning", timeout=10, markup=False)
    if read.left_out or read.notes:
        await screen.app.push_screen_wait(PasteReport(_head(draft, taken), paste_words(read, taken=taken)))
    else:
        screen.app.notify(f"{_head(draft, taken)}; ctrl+z takes it back.", markup=False)
    screen.form.go(NAME)


def _fill(screen: Launching, draft: LaunchDraft, read: Draft) -> int:
    """A command says all there is; values alone are laid over what is there. How many fields have another text."""
    before = dict(draft.model.texts)
    plan, _ = draft.plan(screen.app.session.namespace)
    queue = {"queue": plan.values["queue"]} if "queue" in plan.values else {}
    below = queue if read.name or read.recipe else plan.values
    name = screen.suggest(draft.recipe.id, read.name) if read.name else ""
    screen.form.put_texts(draft.texts_for(overlay(below, read.values), name))
    return sum(draft.model.texts[path] != text for path, text in before.items())


def _head(draft: LaunchDraft, taken: int) -> str:
    return f"{draft.recipe.title}: {wording.count(taken, 'field')} filled"


def begin_from(screen: Launching, wish: LaunchWish) -> None:
    """The form as another screen asked for it; what was there is one undo away."""
    draft = screen.pick_recipe(wish.recipe) if wish.recipe else screen.draft
    if draft is None:
        screen.app.notify(f"The chart has no recipe {wish.recipe}.", severity="error", markup=False)
        return
    values = wish.values
    if wish.over:
        values = overlay(draft.plan(screen.app.session.namespace)[0].values, values)
    else:
        draft.against, draft.against_name = wish.against, wish.against_name
    name = screen.suggest(draft.recipe.id, wish.name) if wish.name else ""
    screen.form.put_texts(draft.texts_for(values, name))
    strangers = draft.strangers(wish.values)
    lost = f" Not values of this chart, left out: {', '.join(strangers)}." if strangers else ""
    said = wish.said or f"{draft.recipe.title} with the values of before."
    screen.app.notify(said + lost, markup=False, severity="warning" if lost else "information")
    screen.form.go(NAME)
    screen.views.draw()
