"""The chart's catalogue of recipes, checks of a launch plan, and its installation as a release."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from console import assets
from console.errors import BadInput, Conflict, NotAllowed, NotFound, NotThere, Unreadable
from console.kube.actions import list_objects
from console.kube.nested_values import Value, get_path, merge_values, overlay_values
from console.kube.objects.meta import ObjectSchema
from console.launch.helm import HELM_POLICY, RECIPE_LABEL, Helm, RemovalPlan, kind_and_name, load_manifest, object_path
from console.launch.recipes import Field, FieldProblem, LaunchPlan, Manifest, Recipe, Release
from console.launch.value_checks import MeasuredSaves, iterations, save_note, value_conflicts, value_notes
from console.launch.values_schema import (
    Schema,
    ValuesChecker,
    confidential_problems,
    parse_defaults,
    parse_fields,
    parse_recipes,
    recipe_launchers,
    values_of_recipe,
)
from console.launch.yaml_write import defaults_yaml
from practice.programs.fault_settings import FAULT_VARIABLE, fault_kinds_of, impossible_faults

if TYPE_CHECKING:
    from console.kube.client import Client


Object = dict[str, Any]
_QUEUE_VERSIONS = ("v1beta2", "v1beta1")
_DRY_RUN_PARAMETERS = {"dryRun": "All", "fieldValidation": "Strict"}


async def server_dry_run(client: Client, namespace: str, manifests: Sequence[str]) -> None:
    """Create the objects with a server-side dry run; raises the error of the first one that is refused."""
    for manifest in manifests:
        made = load_manifest(manifest)
        try:
            await _dry_run_create(client, namespace, made)
        except Conflict:
            # A volume or claim that others use already is used, not made.
            if (made["metadata"].get("annotations") or {}).get(HELM_POLICY) != "keep":
                raise
        if made["kind"] == "JobSet":
            await _dry_run_jobs(client, namespace, made)


async def local_queues(client: Client, namespace: str) -> frozenset[str] | None:
    """Names of a namespace's LocalQueues; None if unknown (no Kueue, or no permission to list them)."""
    for version in _QUEUE_VERSIONS:
        path = f"/apis/kueue.x-k8s.io/{version}/namespaces/{quote(namespace, safe='')}/localqueues"
        with suppress(NotFound, NotAllowed):
            listed = list_objects(client, path, ObjectSchema, "LocalQueues")
            return frozenset([each.metadata.name or "" async for each in listed])
    return None


async def _dry_run_jobs(client: Client, namespace: str, jobset: Object) -> None:
    """Dry-run the Jobs that a JobSet would create, because its webhook does not check the pod templates."""
    for group in jobset["spec"]["replicatedJobs"]:
        name = f"{jobset['metadata']['name']}-{group['name']}-0"
        metadata = {**group["template"].get("metadata", {}), "name": name, "namespace": namespace}
        job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": group["template"]["spec"]}
        try:
            await _dry_run_create(client, namespace, job)
        except NotAllowed:
            return


async def _dry_run_create(client: Client, namespace: str, made: Object) -> None:
    kind = made["kind"]
    await client.request(
        "POST",
        object_path(kind, namespace, api=made["apiVersion"]),
        action=f"create {kind} {made['metadata']['name']}",
        params=_DRY_RUN_PARAMETERS,
        body=msgspec.json.encode(made),
    )


_FIELD_PATTERNS = (  # what a refusal of the server says, and the field that is behind it
    (r"metadata\.name\b", "name"),
    (r"\bLocalQueue\b|queue-name", "queue"),
    (r"\bimage\b.*(Invalid|Required)|\.image:", "image"),
    (r"[pP]riority ?[cC]lass|priority-class", "priorityClass"),
    (r"service ?[aA]ccount", "serviceAccount"),
    (r"podset-(preferred|required)-topology|topology", "topology.level"),
    (r"nodeSelector", "placement.nodeSelector"),
    (r"tolerations", "placement.tolerations"),
    (r"imagePullSecrets", "imagePullSecrets"),
    (r"secretKeyRef", "secrets"),
    (r"\.env\b|\benv\[", "env"),
    (r"maxRestarts", "restarts"),
    (r"ttlSecondsAfterFinished", "ttl"),
    (r"capabilities", "security.capabilities"),
    (r"rivileged", "security.privileged"),
    (r"hostNetwork|hostPort", "network.hostNetwork"),
    (r"persistentvolumeclaims?|PersistentVolumeClaim", "storage.pvc"),
    (r"\.resources\.|exceeded quota", "gpus"),
)


def find_field_of_message(message: str, fields: Sequence[Field]) -> str:
    """Path of the field that the message is about, "name" for the release's name; empty if none."""
    known = {field.path for field in fields} | {"name"}
    for each in fields:
        path, title = re.escape(each.path), re.escape(each.title)
        if re.search(rf"(^|[\s/]){path}\b[:.]|(^|\. ){title} (must|may|holds)", message):
            return each.path
    return next((path for pattern, path in _FIELD_PATTERNS if path in known and re.search(pattern, message)), "")


CHART_NAME = "a4"
MAX_NAME_LENGTH = 43  # of a release: pods are named NAME-workload-0-INDEX-xxxxx, of at most 63 characters
_COMMON_LAUNCHERS = (
    "run.sh",
    "prepare.sh",
    "pods.sh",
    "steps.sh",
    "ending.sh",
    "checkpoints.sh",
)  # launchers that every recipe has beside its own


Problems = tuple[FieldProblem, ...]


class NoSuchQueue(NotFound):
    """The plan's LocalQueue does not exist: the cluster would accept the job, but never start it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint, status=404, reason="NotFound")
        self.problems: Problems = (FieldProblem("queue", message),)


@dataclass(frozen=True, slots=True)
class _RecipeForm:
    """The part of the chart's schema for one recipe: form fields, defaults and paths."""

    recipe: str
    fields: tuple[Field, ...]
    paths: frozenset[str]
    defaults: dict[str, Value]
    unsound: frozenset[str]  # names at the top under which a person has to give something first


@dataclass(frozen=True, eq=False)
class ChartCatalog:
    """The chart's schema and launch scripts, read once; results are cached, hence not slotted."""

    chart: Path
    schema: Schema
    launchers: Mapping[str, str]  # file name -> text
    _forms: dict[str, _RecipeForm] = field(default_factory=dict, repr=False)
    _judged: dict[str, tuple[LaunchPlan, Problems]] = field(default_factory=dict, repr=False)  # the last, by recipe

    @classmethod
    def from_chart(cls) -> ChartCatalog:
        """Read chart/ and launchers/; in a thread, as the schema checker takes 0.2 s to import. Raises Unreadable."""
        import jsonschema  # noqa: F401  # loaded here, so that the first check of a form does not wait for it

        chart = assets.chart_folder()
        try:
            schema = json.loads((chart / "values.schema.json").read_text())
        except (OSError, ValueError) as error:
            raise Unreadable(f"The chart's values.schema.json cannot be read: {error}.") from error
        scripts = sorted(path for path in assets.launchers_folder().iterdir() if path.suffix in {".sh", ".py"})
        return cls(chart, schema, {path.name: path.read_text() for path in scripts})

    @cached_property
    def checker(self) -> ValuesChecker:
        return ValuesChecker(self.schema)

    @cached_property
    def _read_recipes(self) -> tuple[Recipe, ...]:
        return parse_recipes(self.schema)

    def recipes(self) -> tuple[Recipe, ...]:
        return self._read_recipes

    def find_recipe(self, name: str) -> Recipe:
        """The recipe with that id or code (W03), ignoring case. Raises NotThere, which lists the known ones."""
        for recipe in self.recipes():
            if name.lower() in {recipe.id.lower(), recipe.code.lower()}:
                return recipe
        known = [recipe.id for recipe in self.recipes()]
        near = [each for each in known if name and name.lower() in each]
        near = near or difflib.get_close_matches(name.lower(), known, n=1)
        meant = f"; did you mean {' or '.join(near[:3])}?" if near else "."
        raise NotThere(f"There is no recipe {name}{meant}", f"There are: {', '.join(known)}.")

    def _recipe_form(self, recipe: str) -> _RecipeForm:
        known = self.find_recipe(recipe).id
        if known not in self._forms:
            fields = parse_fields(self.schema, known)
            defaults = merge_values(parse_defaults(self.schema), values_of_recipe(self.schema, known))
            unsound = frozenset(each.path.partition(".")[0] for each in self.checker.problems(defaults))
            paths = frozenset(each.path for each in fields)
            self._forms[known] = _RecipeForm(known, fields, paths, defaults, unsound)
        return self._forms[known]

    def fields(self, recipe: str) -> tuple[Field, ...]:
        return self._recipe_form(recipe).fields

    def defaults(self, recipe: str) -> dict[str, Value]:
        return merge_values(self._recipe_form(recipe).defaults, {})

    def values(self, plan: LaunchPlan) -> dict[str, Value]:
        return merge_values(self._recipe_form(plan.recipe).defaults, plan.values)

    def plan_problems(self, plan: LaunchPlan) -> Problems:
        """The reasons why a plan cannot be launched, those about names first; empty if it can."""
        last, problems = self._judged.get(plan.recipe, (None, ()))
        if last != plan:
            naming = (("name", name_problem(plan.name)), ("namespace", namespace_problem(plan.namespace)))
            problems = tuple(FieldProblem(path, message) for path, message in naming if message)
            problems += self.value_problems(plan.recipe, plan.values)
            # A copy, for a caller may go on to change what it passed.
            self._judged[plan.recipe] = replace(plan, values=deepcopy(dict(plan.values))), problems
        return problems

    def value_problems(self, recipe: str, changes: Mapping[str, Value]) -> Problems:
        """The problems of these changes to a recipe's defaults; the names of the launch are not checked."""
        form = self._recipe_form(recipe)
        found = list(self.checker.null_problems(changes))
        values = merge_values(form.defaults, changes)
        # Other defaults are known to fit, and the schema says nothing of one part's values beside another's.
        found += self.checker.problems({name: values[name] for name in {*changes, *form.unsound} if name in values})
        named = {problem.path for problem in found}
        found += [problem for problem in confidential_problems(changes) if problem.path not in named]
        if not found:
            # Only values that are sound by themselves can be held against each other.
            found += value_conflicts(form.recipe, form.paths, values)
        return tuple(found)

    def plan_notes(
        self, plan: LaunchPlan, *, for_practice: bool = False, earlier_saves: Sequence[MeasuredSaves] = ()
    ) -> tuple[str, ...]:
        """Sentences on a plan's effects, () if invalid; `for_practice`: also on practice faults that cannot occur."""
        if self.plan_problems(plan):
            return ()
        paths, values = self._recipe_form(plan.recipe).paths, self.values(plan)
        notes = value_notes(paths, values)
        if note := save_note(paths, values, earlier_saves):
            notes = (*notes[:1], note, *notes[1:])
        if not for_practice:
            return notes
        fault = get_path(values, f"env.{FAULT_VARIABLE}")
        steps = iterations(values) if "recipe.train.tp" in paths else None
        gpus = int(str(get_path(values, "gpus") or 0))
        tensor, pipeline, context = (
            next((int(str(get_path(values, path))) for path in several if path in paths), 1)
            for several in (("recipe.train.tp", "recipe.swift.tp"), ("recipe.train.pp",), ("recipe.train.cp",))
        )
        never = impossible_faults(
            str(fault or ""),
            fault_kinds_of(plan.recipe),
            steps=steps,
            pods=max(1, gpus // 8),
            sizes=(gpus, tensor, pipeline, context),
        )
        return (*notes, *never)

    def require_valid(self, plan: LaunchPlan) -> None:
        """Raise BadInput that lists every problem of the plan, if it has any."""
        problems = self.plan_problems(plan)
        if problems:
            raise BadInput(" ".join(problem.message for problem in problems))

    def values_file(self, recipe: str) -> str:
        found = self.find_recipe(recipe)
        return defaults_yaml(found, self.fields(found.id))

    def suggest_name(self, recipe: str, user: str) -> str:
        """A valid release name from user and recipe, such as anna-nccl-test."""
        suffix = self.find_recipe(recipe).suffix
        who = re.sub(r"[^a-z0-9]+", "-", user.lower()).strip("-")[: MAX_NAME_LENGTH - len(suffix) - 1].rstrip("-")
        if not who or not who[0].isalpha():
            who = f"a4-{who}".rstrip("-")[: MAX_NAME_LENGTH - len(suffix) - 1].rstrip("-")
        return f"{who}-{suffix}"

    def chart_values(self, plan: LaunchPlan) -> dict[str, Value]:
        """The values passed to the chart: changes by recipe and plan, and scripts. Unreadable if one is missing."""
        recipe = self.find_recipe(plan.recipe).id
        wanted = {*_COMMON_LAUNCHERS, *recipe_launchers(self.schema, recipe)}
        if get_path(self.values(plan), "storage.logs"):
            wanted.add("logged.sh")
        own = {name for name in self.launchers if name in wanted or name.rpartition(".")[0] == recipe}
        mine = {name: text for name, text in self.launchers.items() if name in own}
        if len(mine) <= len(wanted):
            raise Unreadable(f"The launcher of {recipe} is missing from launchers/.", "Install a4-console again.")
        return overlay_values(overlay_values(values_of_recipe(self.schema, recipe), plan.values), {"launchers": mine})


@dataclass(frozen=True, slots=True)
class Launcher:
    """Renders, checks, installs and removes launch plans on a cluster."""

    chart_catalog: ChartCatalog
    helm: Helm
    client: Client  # the same cluster, for what Helm does not do: asking whether objects would be accepted
    find_owner: Callable[[], Awaitable[str]] | None = None  # as whom it is launched; None: nobody is named

    async def render(self, plan: LaunchPlan) -> tuple[Manifest, ...]:
        """The objects that a plan would create; the cluster is only asked for the account's name."""
        manifests = [
            Manifest(*kind_and_name(text), text=mask_secrets(text)) for text in await self._render_manifests(plan)
        ]
        return tuple(sorted(manifests, key=lambda manifest: (manifest.kind != "JobSet", manifest.kind)))

    async def dry_run(self, plan: LaunchPlan) -> None:
        """Validate the plan without creating anything: a server-side dry run of every object, and the release name."""
        rendered = await self._render_manifests(plan)
        await self.helm.require_name_free(name=plan.name, namespace=plan.namespace)
        await self._require_queue(plan)
        await server_dry_run(self.client, plan.namespace, rendered)

    async def _require_queue(self, plan: LaunchPlan) -> None:
        """Raise NoSuchQueue if the plan's queue does not exist: the job would wait for ever."""
        values = self.chart_catalog.values(plan)
        queue = values.get("queue")
        if not queue or not values.get("gpus"):
            return
        known = await local_queues(self.client, plan.namespace)
        if known is not None and queue not in known:
            there = f"There are: {', '.join(sorted(known))}." if known else "There are none; leave the queue empty."
            raise NoSuchQueue(f"{plan.namespace} has no LocalQueue {queue}.", there)

    async def _render_manifests(self, plan: LaunchPlan) -> tuple[str, ...]:
        self.chart_catalog.require_valid(plan)
        values = await self._values_with_owner(plan)
        return await self.helm.render(self.chart_catalog.chart, values, name=plan.name, namespace=plan.namespace)

    async def launch(self, plan: LaunchPlan) -> str:
        """Check and install the plan, and return the JobSet's name; a failed install leaves nothing behind."""
        await self.dry_run(plan)
        await self.helm.install(
            self.chart_catalog.chart,
            await self._values_with_owner(plan),
            name=plan.name,
            namespace=plan.namespace,
            labels={RECIPE_LABEL: self.chart_catalog.find_recipe(plan.recipe).id},
        )
        return plan.name

    async def _values_with_owner(self, plan: LaunchPlan) -> dict[str, Value]:
        """The values for a new release, including the name of the person who launches it."""
        values = self.chart_catalog.chart_values(plan)
        return overlay_values(values, {"owner": await self.find_owner()}) if self.find_owner else values

    async def stop(self, namespace: str, name: str, only_objects: Collection[str] | None = None) -> tuple[str, ...]:
        """Remove a release; "Kind name" of each object. Raises NotFound, or Conflict for others than `only_objects`."""
        removal = await self.removal(namespace, name)
        if only_objects is not None:
            removal.require_only(only_objects, name, namespace)
        return await self.helm.uninstall(name=name, namespace=namespace, only=removal.removed)

    async def removal(self, namespace: str, name: str) -> RemovalPlan:
        """The objects that `stop` would remove and keep. Raises NotFound, Conflict or ReleaseFailed as `stop` does."""
        if not any(release.name == name for release in await self.releases(namespace)):
            raise NotFound(f"{namespace} has no release {name} of this chart.", status=404, reason="NotFound")
        from console.launch.chart_objects import require_own_objects

        removal = await self.helm.plan_removal(name=name, namespace=namespace)
        await require_own_objects(self.client, namespace, name, removal.removed)
        return removal

    async def releases(self, namespace: str = "") -> tuple[Release, ...]:
        """Releases of this chart; an empty namespace means all namespaces."""
        return await self.helm.list_releases(CHART_NAME, namespace)

    async def values(self, namespace: str, name: str) -> dict[str, Value]:
        """The values of a release without launch scripts and owner, as a plan to launch again needs them."""
        found = await self.helm.read_values(name=name, namespace=namespace)
        return {path: value for path, value in found.items() if path not in {"launchers", "owner"}}


def name_problem(name: str) -> str:
    """The reason why this is not a valid release name, as a sentence; empty if it is."""
    if not name:
        return "Name is empty."
    if len(name) > MAX_NAME_LENGTH:
        return f"Name may have {MAX_NAME_LENGTH} characters at most, for pods' names to stay valid; it has {len(name)}."
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        return "Name must begin with a letter, end with a letter or digit, and hold only a-z, 0-9 and dashes."
    return ""


def namespace_problem(namespace: str) -> str:
    """The reason why this is not a valid namespace name, as a sentence; empty if it is."""
    if re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", namespace):
        return ""
    return "Namespace must hold only a-z, 0-9 and dashes, 63 characters at most."


def mask_secrets(manifest: str) -> str:
    """A Secret's manifest with every value hidden; other manifests unchanged."""
    if kind_and_name(manifest)[0] != "Secret":
        return manifest
    head, data, values = manifest.partition("\ndata:\n")
    return head + data + re.sub(r"^( +[-._\w\"]+:).*$", r"\1 (hidden)", values, flags=re.MULTILINE)
