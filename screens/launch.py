"""Launch: start something. A recipe, a form made from its fields, a look at what will be created, and off.

Over 300 lines, because judging, rendering and launching are one conversation about one plan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import getters, on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from console.errors import ConsoleError
from console.models.launch import Field, FieldKind, FieldProblem, LaunchPlan, Manifest, Recipe, changed
from screens import wording
from screens.base import LiveScreen
from screens.modals.launch_look import LaunchLook, joined
from screens.widgets.column import Column
from screens.widgets.form import Form
from screens.widgets.launch_words import choices_of, free_name, help_words, plan_words, problems_in, recipe_words
from screens.widgets.notice import Notice
from screens.widgets.sentence_line import SentenceLine
from screens.widgets.table import ResourceTable
from screens.widgets.yaml_text import YamlText
from screens.wording import Run

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.timer import Timer

    from console.models.fleet import Fleet
    from screens.widgets.listing import RowKey

SETTLE = 0.25
"""Seconds without a key after which the manifests are rendered anew."""


LOOK = 0.25
"""Seconds the cursor rests on a recipe before its form is made: going down the list is as fast as any list."""


class RecipeTable(ResourceTable[Recipe]):
    """What can be launched."""

    NOUN = "recipe"
    EMPTY = Notice("No recipes.", "The chart lists them.")
    COLUMNS: ClassVar = (
        Column("RECIPE", lambda recipe: recipe.title, least=12, fill=True),
        Column("", lambda recipe: Run(recipe.code, "dim"), width=3),
    )


class LaunchScreen(LiveScreen):
    """Recipes left, the form beside them, the manifests beside that where there is room."""

    CSS_PATH = "launch.tcss"
    KINDS = ("localqueues", "clusterqueues", "jobsets")
    CHANGES_CLUSTER = frozenset({"launch"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "launch", "Launch", id="launch.launch", tooltip="Check with the server, look once, launch"),
        Binding("ctrl+t", "advanced", "More fields", id="launch.advanced", tooltip="Show or hide the advanced fields"),
        Binding("ctrl+o", "preview", "Preview", id="launch.preview", tooltip="Show or hide the rendered manifests"),
    ]

    recipes = getters.query_one(RecipeTable)
    form = getters.query_one(Form)
    about = getters.query_one("#about", SentenceLine)
    note = getters.query_one("#help", SentenceLine)
    sum_line = getters.query_one("#sum", SentenceLine)
    preview = getters.query_one(YamlText)

    def __init__(self) -> None:
        super().__init__()
        self._recipe: Recipe | None = None
        self._fields: tuple[Field, ...] = ()
        self._advanced = False
        self._texts: dict[str, dict[str, str]] = {}
        """What was typed, by recipe and path, kept while other recipes are looked at."""
        self._render_due: Timer | None = None
        self._form_due: Timer | None = None
        self._launched: set[str] = set()
        """Names used from here, which the picture may not show yet."""
        self._server_says: dict[str, str] = {}
        """What the API server refused at the last launch, by path, until something is typed."""

    def body(self) -> ComposeResult:
        """Recipes, form, manifests."""
        with Horizontal():
            yield RecipeTable()
            with Vertical(id="middle"):
                yield SentenceLine(id="about")
                yield Form()
                yield SentenceLine(id="help")
                yield SentenceLine(id="sum")
            yield YamlText(id="manifests")

    def on_mount(self) -> None:
        """The recipes have the keys first."""
        self.recipes.focus()

    def show_fleet(self, fleet: Fleet) -> None:
        """What the cluster offers may have changed; what was typed stays."""
        if not self.app.connected:
            return
        if not self.recipes.listing.rows:
            with self.report_errors("The recipes cannot be read"):
                found: dict[RowKey, Recipe] = {(recipe.id,): recipe for recipe in self.session.recipes()}
                self.recipes.show_trouble(RecipeTable.EMPTY)
                self.recipes.show_rows(found)
        self.form.offer(choices_of(fleet, self.session.namespace))
        self._tell_sum()

    # the form

    @on(ResourceTable.Highlighted, "RecipeTable")
    async def look_at_recipe(self, event: ResourceTable.Highlighted) -> None:
        """The first recipe's form is made at once, another's when the cursor rests on it."""
        event.stop()
        if self._form_due is not None:
            self._form_due.stop()
        if self._recipe is None:
            await self.take_recipe()
        else:
            self._form_due = self.set_timer(LOOK, self.take_recipe)

    async def take_recipe(self) -> None:
        """The form of the recipe under the cursor, now; what was typed for the one before is kept."""
        if self._form_due is not None:
            self._form_due.stop()
        recipe = self.recipes.row
        if recipe is None or recipe is self._recipe:
            return
        self._keep_texts()
        self._recipe = recipe
        self._server_says = {}
        self._fields = self.session.fields(recipe.id)
        if recipe.id not in self._texts:
            self._texts[recipe.id] = self._first_texts(recipe)
        self.about.runs = (*self._read_only_words(), *recipe_words(recipe))
        await self._show_form()
        if self.focused is None:  # the keys were in the form that is gone
            self.form.go("name")

    def _read_only_words(self) -> tuple[Run, ...]:
        words = Run("Read-only: nothing can be launched from here. ", "waits")
        return (words,) if self.app.settings.read_only else ()

    def _first_texts(self, recipe: Recipe) -> dict[str, str]:
        """A free name, and the queue with most room: what nearly everybody would type."""
        texts = {"name": self._suggest(recipe)}
        for field in self._fields:
            choices = choices_of(self.app.fleet, self.session.namespace).get(field.choices_from, ())
            if field.choices_from == "localqueues" and choices and not field.default:
                texts[field.path] = choices[0]
        return texts

    def _suggest(self, recipe: Recipe) -> str:
        wanted = self.session.suggest_name(recipe.id)
        return free_name(wanted, self.app.fleet, self.session.namespace, self._launched)

    def _keep_texts(self) -> None:
        if self._recipe is not None:
            self._texts[self._recipe.id] = {**self._texts.get(self._recipe.id, {}), **self.form.texts}

    async def _show_form(self) -> None:
        assert self._recipe is not None
        texts = self._texts[self._recipe.id]
        group = self._fields[0].group if self._fields else ""
        told = "Name of the Helm release and of its JobSet."
        name = Field("name", "Name", told, FieldKind.TEXT, texts["name"], group=group, required=True)
        shown = [field for field in self._fields if self._advanced or not field.advanced]
        await self.form.show([name, *shown], texts)
        self.form.offer(choices_of(self.app.fleet, self.session.namespace))
        self._judge()

    def _plan(self) -> tuple[LaunchPlan, tuple[FieldProblem, ...]] | None:
        """The plan as it is typed, and everything that is wrong with it."""
        if self._recipe is None:
            return None
        texts = {**self._texts[self._recipe.id], **self.form.texts}
        values, unread = changed(self._fields, texts)
        plan = LaunchPlan(self._recipe.id, texts.get("name", "").strip(), self.session.namespace, values)
        return plan, (*unread, *self.session.problems(plan))

    def _judge(self) -> None:
        planned = self._plan()
        if planned is None:
            return
        _, problems = planned
        found = {problem.path: problem.message for problem in reversed(problems)}
        self.form.show_problems({**self._server_says, **found})
        self._tell_sum()
        if self._render_due is not None:
            self._render_due.stop()
        self._render_due = self.set_timer(SETTLE, self._draw_preview)

    @on(Form.Changed)
    def take_typing(self, event: Form.Changed) -> None:
        """Every key is judged at once; the manifests follow when the keys rest."""
        event.stop()
        self._server_says = {}
        self._judge()

    @on(Form.Entered)
    def tell_field(self, event: Form.Entered) -> None:
        """Help for the field with the keys, and all of what is wrong with it."""
        event.stop()
        self.note.runs = tuple(help_words(event.field, event.problem))

    @on(ResourceTable.Opened, "RecipeTable")
    async def enter_form(self, event: ResourceTable.Opened) -> None:
        """Enter on a recipe goes into its form."""
        event.stop()
        await self.take_recipe()
        self.form.go("name")

    def _tell_sum(self) -> None:
        planned = self._plan() if self.app.connected else None
        if planned is not None:
            plan, problems = planned
            self.sum_line.runs = tuple(plan_words(plan, self._fields, problems, self.app.fleet))

    async def action_advanced(self) -> None:
        """Shows or hides the advanced fields; what was typed stays."""
        await self.take_recipe()
        self._advanced = not self._advanced
        if self._recipe is not None:
            self._keep_texts()
            await self._show_form()
            self.form.go("name")

    # the manifests

    async def action_preview(self) -> None:
        """Shows or hides the manifests."""
        await self.take_recipe()
        self.toggle_class("-preview")
        if self.has_class("-narrow"):
            (self.preview if self.has_class("-preview") else self.recipes).focus()
        self._draw_preview()

    @work(group="render", exclusive=True)
    async def _draw_preview(self) -> None:
        planned = self._plan() if self.preview.display else None
        if planned is None:
            return
        plan, problems = planned
        if problems:
            self.preview.show("# Not rendered: " + wording.sentence(problems[0].message))
            return
        try:
            self.preview.show(joined(await self.session.render(plan)))
        except ConsoleError as error:
            self.preview.show(f"# {wording.sentence(str(error))}")

    # off

    async def action_launch(self) -> None:
        """Checks with the server, shows what will be created, launches."""
        await self.take_recipe()
        planned = self._plan() if self.app.connected else None
        if planned is None:
            return
        plan, problems = planned
        if problems:
            self.notify(problems[0].message, title="Not yet", severity="warning", markup=False)
            self._go_to(problems[0].path)
            return
        self._launch(plan)

    @work(group="form", exclusive=True)
    async def _go_to(self, path: str) -> None:
        """Gives the keys to that field, which may be an advanced one that is not shown yet."""
        if not self.form.field_of(path) and any(path.startswith(field.path) for field in self._fields):
            self._advanced = True
            self._keep_texts()
            await self._show_form()
        self.form.go(path)

    @work(group="actions", exclusive=True)
    async def _launch(self, plan: LaunchPlan) -> None:
        self.sum_line.runs = (Run("◐ ", "waits"), Run(f"The API server checks {plan.name} …"))
        try:
            manifests = await self.session.render(plan)
            await self.session.check(plan)
            if not await self._agreed(plan, manifests):
                return
            self.sum_line.runs = (Run("◐ ", "waits"), Run(f"Launching {plan.name} …"))
            job = await self.session.launch(plan)
        except ConsoleError as error:
            self._refused(plan, error)
            return
        finally:
            self._tell_sum()
        self._launched.add(job)
        self.notify(f"{job} is launched.", title=plan.name, markup=False)
        if self._recipe is not None:
            self._texts[self._recipe.id] = {**self._texts[self._recipe.id], "name": self._suggest(self._recipe)}
            await self._show_form()
        self.app.launched = plan.namespace, job
        await self.app.switch_mode("jobs")
        self.app.open_page("job", plan.namespace, job, "nccl" if plan.recipe.startswith("nccl") else "ranks")

    async def _agreed(self, plan: LaunchPlan, manifests: tuple[Manifest, ...]) -> bool:
        words = [
            Run("✓ ", "ok"),
            Run("The API server accepts it. "),
            *plan_words(plan, self._fields, (), self.app.fleet),
        ]
        kinds = ", ".join(f"{manifest.kind} {manifest.name}" for manifest in manifests)
        words += [Run("  Creates: ", "dim"), Run(kinds)]
        agreed = await self.app.push_screen_wait(LaunchLook(f"Launch {plan.name}?", words, manifests))
        return agreed is True

    def _refused(self, plan: LaunchPlan, error: ConsoleError) -> None:
        """What the server says goes to the field it speaks of, else into a toast."""
        self._server_says = problems_in(str(error), self._fields)
        self.notify(str(error), title=f"{plan.name} was not launched", severity="error", timeout=12, markup=False)
        if self._server_says:
            self._judge()
            self._go_to(next(iter(self._server_says)))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """On a narrow screen the recipes make room for the form."""
        self.set_class(self.form in event.widget.ancestors or event.widget is self.preview, "-typing")

    def action_back(self) -> None:
        """From the form back to the recipes."""
        if self.has_class("-typing"):
            self.recipes.focus()
        else:
            super().action_back()

    def on_resize(self, event: events.Resize) -> None:
        """A third column where there is room."""
        self.set_class(event.size.width >= 170, "-wide")
        self.set_class(event.size.width < 100, "-narrow")
        self.set_class(event.size.height < 30, "-low")
        self.call_after_refresh(self._draw_preview)
