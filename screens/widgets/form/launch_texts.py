"""Texts of the launch screen around the form: recipe list, header, plans, choices, unused names."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical

from console.kube.objects.node import Node
from console.kube.snapshot import Fleet, WatchState
from console.launch.field_choices import GOOGLE_KINDS, ChoicesState, FieldChoices
from console.launch.field_values import format_value
from console.launch.recipes import Draft, Field, FieldProblem, LaunchPlan, Recipe
from console.scheduling.expected_start import ExpectedStart
from console.scheduling.launch_alternatives import LaunchAlternative
from console.scheduling.launch_forecast import FORECAST_NOTE, LaunchDemand, LaunchVerdict, forecast, rank_queues
from console.scheduling.topology import level_name
from console.session import Session
from screens import wording
from screens.columns.column import Column
from screens.columns.jobs import start_time
from screens.widgets.form.form_model import LaunchDraft
from screens.widgets.table.row_painter import EmptyNotice
from screens.widgets.table.table import ResourceTable
from screens.widgets.wrapped_sentence import SentenceLine, fold_spans
from screens.wording import Span

GPUS_PER_NODE = 8  # GPUs of one machine
FIT_KINDS = ("localqueues", "clusterqueues", "resourceflavors", "topologies", "workloads", "nodes", "pods")
"""The kinds of Kubernetes objects from which the forecast of a launch is computed."""


def free_name(wanted_name: str, fleet: Fleet, namespace: str, taken_names: Collection[str] = ()) -> str:
    """`wanted_name`, else with -2, -3 and so on: the first name that no JobSet of the namespace has."""
    used = {name for where, name in fleet.jobsets if where == namespace} | set(taken_names)
    name, number = wanted_name, 1
    while name in used:
        number += 1
        name = f"{wanted_name}-{number}"
    return name


def choices_of(fleet: Fleet, namespace: str, demand: LaunchDemand | None = None) -> dict[str, FieldChoices]:
    """The choices from the cluster's snapshot by field, the likeliest first; with `demand` a forecast of each queue."""
    doors = rank_queues(fleet, demand or LaunchDemand(namespace))
    outcomes = {}
    if demand is not None:
        for door in doors:
            found = forecast(fleet, replace(demand, queue=door))
            outcomes[door] = f"{found.verdict}, {found.account.free} free" if found.total else str(found.verdict)
    nodes = sorted((node for node in fleet.nodes.values() if node.gpus), key=lambda node: node.name)
    labels = _node_labels(fleet, nodes)
    accelerators = sorted({node.accelerator for node in nodes if node.accelerator})
    levels = list(dict.fromkeys(level for topology in fleet.topologies.values() for level in topology.levels))
    return {
        "localqueues": _field_choices(fleet, "localqueues", doors, f"{namespace} has no LocalQueue", outcomes),
        "nodes": _field_choices(
            fleet, "nodes", [node.name for node in nodes], "No node has GPUs", {node.name: node.pool for node in nodes}
        ),
        "nodelabels": _field_choices(fleet, "nodes", list(labels), "No node has GPUs", labels),
        "accelerators": _field_choices(fleet, "nodes", accelerators, "No node says which accelerator it has"),
        "topologylevels": _field_choices(
            fleet, "topologies", levels, "The cluster has no Topology", {level: level_name(level) for level in levels}
        ),
    }


def _node_labels(fleet: Fleet, nodes: Sequence[Node]) -> dict[str, str]:
    """By label ("key=value") of a node pool or reservation: its free capacity, as text."""
    labels: dict[str, list[Node]] = {}
    for label, attribute in (("gke-nodepool", "pool"), ("reservation-name", "reservation")):
        for node in nodes:
            if value := getattr(node, attribute):
                labels.setdefault(f"cloud.google.com/{label}={value}", []).append(node)
    about = {}
    for label, of in labels.items():
        free, total = sum(map(fleet.gpus_free, of)), sum(node.gpus for node in of)
        about[label] = f"{free} of {total} GPUs free, {wording.count(len(of), 'node')}"
    return about


def _field_choices(
    fleet: Fleet, kind: str, names: Sequence[str], none: str, about: Mapping[str, str] | None = None
) -> FieldChoices:
    """The choices of one kind; without any, the reason: it may not be listed, or none exist."""
    link = fleet.links.get(kind)
    states = {
        WatchState.FORBIDDEN: ChoicesState.NOT_ALLOWED,
        WatchState.ABSENT: ChoicesState.ABSENT,
        WatchState.STALE: ChoicesState.FAILED,
    }
    state = states.get(link.state, ChoicesState.LISTED) if link is not None else ChoicesState.LISTED
    why = "" if names else f"{none}." if state is ChoicesState.LISTED or link is None else f"{link.why}."
    return FieldChoices(kind, tuple(names), about or {}, state, why)


def recipe_words(recipe: Recipe, *, is_brief: bool = False) -> list[Span]:
    """A text on what a recipe does, needs and yields; `is_brief` gives only names and duration."""
    head = [Span(recipe.title, "strong"), Span(f"  {recipe.id}  ", "dim")]
    if is_brief:
        return [*head, Span(f"{recipe.duration}.", "dim")]
    needs = Span(" Needs ", "dim"), Span(f"{recipe.needs}. ")
    gives = Span(" Gives ", "dim"), Span(f"{recipe.gives}, ")
    return [*head, Span(f"{wording.sentence(recipe.summary)} "), *needs, *gives, Span(f"{recipe.duration}.", "dim")]


LIST_HELP = Span(
    "⏎ goes into the form, ctrl+f searches it, ctrl+o shows what will be created, f6 takes a paste.", "dim"
)
"""The text at the place of a field's help while the list of recipes has the focus."""


def help_words(field: Field | None, problem: str) -> list[Span]:
    if field is None:
        return [Span("⏎ opens this. ctrl+t shows all fields of all sections, ctrl+f searches in them.", "dim")]
    wrong = [Span(f"✗ {wording.sentence(problem)}  ", "bad")] if problem else []
    default = "" if field.secret else format_value(field, field.default).replace("\n", ", ")
    examples = f" For example {', '.join(field.examples)}." if field.examples else ""
    return [
        *wrong,
        Span(f"{field.title}: ", "strong"),
        Span(wording.sentence(field.description)),
        Span(f" {_rule_sentence(field)}" if field.rule else "", "dim"),
        Span(examples, "dim"),
        Span(f" Default: {default if len(default) < 60 else default[:59] + '…'}." if default else "", "dim"),
        Span(f"  {field.path}" if field.path != "name" else "", "dim"),
    ]


def field_facts(field: Field, problem: str) -> list[tuple[str, str]]:
    """Everything known about one field as (name, text) lines."""
    default = "" if field.secret else format_value(field, field.default)
    facts = [
        ("wrong", wording.sentence(problem)),
        ("what", wording.sentence(field.description)),
        ("unit", field.unit),
        ("rule", _rule_sentence(field) if field.rule else ""),
        ("choices", ", ".join(field.choices)),
        ("for example", ", ".join(field.examples)),
        ("default", default),
        ("value", field.path if field.path != "name" else ""),
    ]
    return [(about, words) for about, words in facts if words]


def _rule_sentence(field: Field) -> str:
    return f"{field.rule[:1].upper()}{field.rule[1:]}."


def plan_words(plan: LaunchPlan, draft: LaunchDraft) -> list[Span]:
    field = draft.model.by_path.get("gpus")
    gpus = plan.values.get("gpus", field.default if field else None)
    words = [Span(plan.name, "strong"), Span(f" in {plan.namespace}", "dim")]
    if isinstance(gpus, int):
        nodes = f" = {wording.count(gpus // GPUS_PER_NODE, 'node')} of {GPUS_PER_NODE}" if gpus >= GPUS_PER_NODE else ""
        words.append(Span(f"  {wording.count(gpus, 'GPU')}{nodes}" if gpus else "  no GPUs"))
    return words


def form_summary(plan: LaunchPlan, draft: LaunchDraft, problems: Sequence[FieldProblem]) -> list[Span]:
    if problems:
        titles = {"": "the values as a whole", "namespace": "Namespace"}
        titles |= {path: field.title for path, field in draft.model.by_path.items()}
        wrong = dict.fromkeys(titles.get(problem.path, problem.path) for problem in problems)
        return [Span("✗ ", "bad"), Span(f"Needs another value: {', '.join(wrong)}.", "bad")]
    changed = sum(draft.model.is_changed(field.path) for field in draft.fields)
    if queue := draft.filled_queue:
        text = f"  queue {queue} filled in{f', {changed} changed' if changed else ''}"
    else:
        text = f"  {changed} changed" if changed else "  all at their defaults"
    return [*plan_words(plan, draft), Span(text, "dim")]


_VERDICT_MARKS = {
    LaunchVerdict.NOW: (Span("● ", "ok"), "Fits now", "ok"),
    LaunchVerdict.SPLIT: (Span("⚠ ", "waits"), "Fits, but split", "waits"),
    LaunchVerdict.NO_QUEUE: (Span("⚠ ", "waits"), "No queue", "waits"),
    LaunchVerdict.WAITS: (Span("○ ", "waits"), "Waits", "waits"),
    LaunchVerdict.STOPPED: (Span("‖ ", "waits"), "Queue stopped", "waits"),
    LaunchVerdict.UNKNOWN: (Span("? ", "dim"), "Not known", "dim"),
    LaunchVerdict.NEVER: (Span("✗ ", "bad"), "Never", "bad"),
}


def fit_words(fleet: Fleet, demand: LaunchDemand, expected_start: ExpectedStart | None = None) -> list[Span]:
    """The forecast of launching now with the reason, and the expected start if it would wait."""
    found = forecast(fleet, demand, expected_start)
    light, word, style = _VERDICT_MARKS[found.verdict]
    reason = found.sentence
    if reason.lower().startswith(word.lower()):
        reason = reason[len(word) :].lstrip(": ")
    if expected_start is not None and found.verdict is LaunchVerdict.WAITS:
        when = start_time(expected_start, fleet.at)
        known = f", starts {when}" if expected_start.at or expected_start.earliest else ", its start is not known"
        word += f", {when}" if expected_start.checks else known
    links = [fleet.links[kind] for kind in FIT_KINDS if kind in fleet.links]
    # When the oldest part of what the light stands on last came, while the server is away.
    since = min((link.last_seen or link.since for link in links if link.state is WatchState.STALE), default=0.0)
    if since:
        about = f" (as of {wording.clock(since)[11:]}, reconnecting; {FORECAST_NOTE}): "
        return [Span("◌ ", "waits"), Span(word, "dim"), Span(about, "waits"), Span(f"{reason}.", "dim")]
    return [light, Span(word, style), Span(f" ({FORECAST_NOTE}): ", "dim"), Span(f"{reason}.")]


def alternative_words(alternatives: Sequence[LaunchAlternative]) -> list[Span]:
    """A text with the changes by which a launch would start now, each with its key."""
    words = ", or ".join(f"{each.words} ({key})" for key, each in enumerate(alternatives, start=1))
    return [Span(f" It would fit now {words}.", "accent")] if alternatives else []


def paste_words(draft: Draft, *, taken_count: int) -> list[list[Span]]:
    lines = [[Span("✗ ", "bad"), Span(str(remark))] for remark in draft.problems]
    if draft.problems:
        lines.append([Span("The form is as it was; correct the text and paste it again.", "dim")])
    if draft.left_out:
        lines.append([Span(f"Not taken ({len(draft.left_out)}):", "strong")])
    lines += [
        [Span("○ ", "waits"), Span(f"{remark.path}: ", "accent"), Span(remark.message)] for remark in draft.left_out
    ]
    if draft.notes:
        lines.append([Span("Worth knowing:", "strong")])
    lines += [[Span("⚑ ", "accent"), Span(remark.message)] for remark in draft.notes]
    if taken_count:
        lines.append([Span(f"{wording.count(taken_count, 'field')} changed; ctrl+z in the form takes it back.", "dim")])
    return lines


READ_ONLY = Span("Read-only: nothing can be launched from here. ", "waits")


class AboutLine(SentenceLine):
    """The description of a recipe, with the height of the longest one, so that nothing below moves."""

    all_descriptions: tuple[tuple[Span, ...], ...] = ()
    _highest: tuple[int, int] = (0, 0)  # width, and the lines of the longest sentence at it

    def lines_at(self, width: int) -> int:
        if self._highest[0] != width or not self._highest[1]:
            highest = max((len(fold_spans(each, width)) for each in self.all_descriptions), default=0)
            self._highest = width, highest
        return max(self._highest[1], super().lines_at(width))


class LaunchHead(Vertical):
    DEFAULT_CSS: ClassVar[str] = """
    LaunchHead { height: auto; background: $surface;
        & > #about { max-height: 6; color: $text-muted; }
        & > #fit { height: 2; }
        & > #notes { height: 2; display: none; }
        &.-brief > #about { max-height: 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._about, self._fit, self._notes = AboutLine(id="about"), SentenceLine(id="fit"), SentenceLine(id="notes")

    def compose(self) -> ComposeResult:
        yield from (self._about, self._fit, self._notes)

    def show_recipes(self, recipes: Iterable[Recipe]) -> None:
        self._about.all_descriptions = tuple(tuple(recipe_words(recipe)) for recipe in recipes)
        self._about.refresh(layout=True)

    def show_recipe(self, recipe: Recipe, *, is_brief: bool, read_only: bool) -> None:
        self.set_class(is_brief, "-brief")
        first = (READ_ONLY,) if read_only else ()
        self._about.runs = (*first, *recipe_words(recipe, is_brief=is_brief))

    def show_fit(self, fleet: Fleet, demand: LaunchDemand | None, expected_start: ExpectedStart | None = None) -> None:
        """Show the forecast, or that it waits for valid values (`demand` None)."""
        words = [Span("○ Whether it fits is known once what is wrong is corrected.", "dim")]
        self._fit.runs = tuple(fit_words(fleet, demand, expected_start) if demand is not None else words)

    def show_notes(self, notes: Sequence[str], *, is_valid: bool) -> None:
        """Show the notes on the launch plan; their space stays reserved while values are invalid."""
        words = Span(" ".join(wording.sentence(note) for note in notes))
        self._notes.runs = (Span("⚑ ", "accent"), words) if notes else ()
        stays = not is_valid or not self.has_class("-brief")
        self._notes.display = bool(notes) or (bool(self._notes.display) and stays)


def title_and_id(recipe: Recipe, width: int) -> list[Span]:
    """The title of a recipe, and its id at the end of the line where both are whole."""
    gap = width - len(recipe.title) - len(recipe.id)
    return [Span(recipe.title), *([Span(f"{'':{gap}}{recipe.id}", "dim")] if gap > 1 else [])]


class RecipeTable(ResourceTable[Recipe]):
    """A table of recipes; its filter also searches what each does, needs and yields, and its code."""

    NOUN = "recipe"
    EMPTY = EmptyNotice("No recipes.", "The chart lists them.")
    COLUMNS: ClassVar = (Column("RECIPE", lambda each: each.title, least=12, fill=True, draw=title_and_id),)

    def filter_by(self, text: str) -> None:
        """Filter; the recipe whose id is the whole text comes first, with the cursor on it."""
        wanted = text.strip()
        exact = (wanted,) in self.listing.rows
        self.listing.sort_by((lambda recipe: recipe.id != wanted) if exact else None)
        super().filter_by(text)
        self.move_to((wanted,))

    def row_text(self, row: Recipe) -> str:
        return " ".join((row.title, row.code, row.id, row.summary, row.needs, row.gives))


ASK_GOOGLE_AGAIN = 30.0  # seconds


class GoogleChoices:
    """The kinds of choices that a form has requested from Google, with the answers so far."""

    def __init__(self) -> None:
        self._choices: dict[str, FieldChoices] = {}
        self._asked_at: dict[str, float] = {}

    def merge_into(self, offers: Mapping[str, FieldChoices]) -> dict[str, FieldChoices]:
        none = {kind: FieldChoices(kind) for kind in self._choices}
        return {**offers, **{kind: {**none, **offers}[kind].merge(more) for kind, more in self._choices.items()}}

    def begin_asking(self, kind: str) -> bool:
        """Whether to request choices of this kind from Google now; marks it as requested."""
        now = time.monotonic()
        if kind not in GOOGLE_KINDS or now < self._asked_at.get(kind, -ASK_GOOGLE_AGAIN) + ASK_GOOGLE_AGAIN:
            return False
        self._asked_at[kind] = now
        if kind not in self._choices:
            words = f"Asking Google for {GOOGLE_KINDS[kind]} …"
            self._choices[kind] = FieldChoices(kind, state=ChoicesState.UNASKED, why=words)
        return True

    async def ask(self, session: Session, kind: str) -> None:
        found = self._choices[kind] = await session.google.field_choices(kind)
        if found.state is ChoicesState.FAILED:
            self._asked_at.pop(kind, None)  # the next try need not wait
