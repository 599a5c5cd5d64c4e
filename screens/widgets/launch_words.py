"""What the launch screen says and offers: recipes, plans, choices of the cluster, names that are free (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.launch import Field, FieldProblem, LaunchPlan, Recipe, spell
from console.models.quota import queue_account
from console.models.room import Fits, room
from console.models.values import look
from screens import wording
from screens.wording import Run

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from console.models.fleet import Fleet
    from console.models.queue import LocalQueue

A_NODE = 8
"""GPUs of one machine."""


def free_name(wanted: str, fleet: Fleet, namespace: str, taken: Collection[str] = ()) -> str:
    """The name, or the first of name-2, name-3, … that no JobSet of the namespace has."""
    used = {name for where, name in fleet.jobsets if where == namespace} | set(taken)
    name, number = wanted, 1
    while name in used:
        number += 1
        name = f"{wanted}-{number}"
    return name


def choices_of(fleet: Fleet, namespace: str) -> dict[str, tuple[str, ...]]:
    """What the cluster has to choose from, by the name in `Field.choices_from`; what is most likely wanted first."""
    doors = [door for (where, _), door in fleet.local_queues.items() if where == namespace]
    doors.sort(key=lambda door: (bool(closed(door, fleet)), -_free(fleet, door.cluster_queue), door.name))
    nodes = [node for node in fleet.nodes.values() if node.gpus]
    levels = [level for topology in fleet.topologies.values() for level in topology.levels]
    return {
        "localqueues": tuple(door.name for door in doors),
        "nodes": tuple(sorted(node.name for node in nodes)),
        "accelerators": tuple(sorted({node.accelerator for node in nodes if node.accelerator})),
        "topologylevels": tuple(dict.fromkeys(levels)),
        "priorityclasses": tuple(sorted({each.priority_class for each in fleet.workloads.values()} - {""})),
    }


def closed(door: LocalQueue, fleet: Fleet) -> str:
    """Why a LocalQueue admits nothing at all; empty if it admits."""
    queue = fleet.cluster_queues.get(("", door.cluster_queue))
    if queue is None:
        return f"leads to ClusterQueue {door.cluster_queue}, which does not exist"
    for each in (door, queue):
        if each.stop_policy not in {"", "None"}:
            return f"{each.name} is stopped"
        if each.inactive_reason:
            return f"{each.name} is inactive"
    return ""


def _free(fleet: Fleet, cluster_queue: str) -> int:
    return queue_account(fleet, cluster_queue).free if ("", cluster_queue) in fleet.cluster_queues else 0


def recipe_words(recipe: Recipe) -> list[Run]:
    """What a recipe does, needs and gives."""
    return [
        Run(recipe.title, "strong"),
        Run(f"  {recipe.code}  ", "dim"),
        Run(f"{wording.sentence(recipe.summary)} "),
        Run(" Needs ", "dim"),
        Run(f"{recipe.needs}. "),
        Run(" Gives ", "dim"),
        Run(f"{recipe.gives}, "),
        Run(f"{recipe.duration}.", "dim"),
    ]


def help_words(field: Field, problem: str) -> list[Run]:
    """Help for one field: what is wrong with it first."""
    wrong = [Run(f"✗ {wording.sentence(problem)}  ", "bad")] if problem else []
    default = spell(field, field.default).replace("\n", ", ")
    examples = f" For example {', '.join(field.examples)}." if field.examples else ""
    return [
        *wrong,
        Run(f"{field.title}: ", "strong"),
        Run(wording.sentence(field.description)),
        Run(examples, "dim"),
        Run(f" Default: {default if len(default) < 60 else default[:59] + '…'}." if default else "", "dim"),
    ]


def value_of(plan: LaunchPlan, fields: Sequence[Field], path: str) -> object:
    """What the plan has at that path, else the field's default."""
    found = look(plan.values, path)
    return found if found is not None else next((field.default for field in fields if field.path == path), None)


def plan_words(plan: LaunchPlan, fields: Sequence[Field], problems: Sequence[FieldProblem], fleet: Fleet) -> list[Run]:
    """What would be created and whether there is room for it, or how many fields need a look first."""
    if problems:
        titles = {"": "the values as a whole", "name": "Name"} | {field.path: field.title for field in fields}
        wrong = dict.fromkeys(titles.get(problem.path, problem.path) for problem in problems)
        return [Run("✗ ", "bad"), Run(f"Needs another value: {', '.join(wrong)}.", "bad")]
    gpus, queue = value_of(plan, fields, "gpus"), str(value_of(plan, fields, "queue") or "")
    words = [Run("JobSet ", "dim"), Run(plan.name, "strong"), Run(f" in {plan.namespace}", "dim")]
    if not isinstance(gpus, int):
        return words
    nodes = f" = {wording.count(gpus // A_NODE, 'node')} of {A_NODE}" if gpus >= A_NODE else ""
    words.append(Run(f"  {wording.count(gpus, 'GPU')}{nodes}"))
    door = fleet.local_queues.get((plan.namespace, queue))
    if door is None:
        return [*words, Run("  no queue: starts as soon as nodes are free", "waits")]
    shut = closed(door, fleet)
    return [*words, Run(f"  {shut}: would wait", "bad")] if shut else [*words, *_room(gpus, door.cluster_queue, fleet)]


def _room(gpus: int, cluster_queue: str, fleet: Fleet) -> list[Run]:
    """A check against quota and machines as they are now; Kueue decides."""
    found = room(fleet, cluster_queue, gpus)
    have = found.account
    words, ink = {
        Fits.NOW: (f"fits now, in one {found.place}" if found.place else "quota fits now", "ok"),
        Fits.SPREAD: ("fits now, spread over blocks", "ok"),
        Fits.NO_HOSTS: (f"quota fits, but there is room for only {found.hosts} of its pods: would wait", "waits"),
        Fits.NO_QUOTA: (f"would wait for {gpus - have.free} more", "waits"),
        Fits.NEVER: ("more than it can ever give", "bad"),
    }[found.fits]
    flavor = f" ({found.flavor})" if found.flavor and found.flavor != cluster_queue else ""
    return [Run(f"  {have.free} of {have.total} GPUs of {cluster_queue}{flavor} are free: "), Run(words, ink)]


def problems_in(message: str, fields: Sequence[Field]) -> dict[str, str]:
    """The sentences of a refusal that begin with a field's title or name its path, by path."""
    found: dict[str, str] = {}
    for sentence in message.split(". "):
        for field in fields:
            if sentence.startswith(f"{field.title} ") or f"{field.path}:" in sentence or f"/{field.path}" in sentence:
                found.setdefault(field.path, sentence.rstrip("."))
    return found
