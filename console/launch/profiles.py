"""Profiles: named sets of values, applied under every form, as YAML files; the file `default` names the default one."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from console.errors import BadInput, NotThere
from console.folders import atomic_write, config_folder, make_private, read_own_file
from console.kube.nested_values import Value, get_path, overlay_values, set_path
from console.kube.safe_yaml import NotPlainError, load_without_references
from console.launch.helm_set_parser import as_word, convert_values, iter_field_values, parse_settings
from console.launch.recipes import Field, FieldProblem
from console.launch.values_schema import suggest_path, without_secrets

if TYPE_CHECKING:
    from console.launch.install import ChartCatalog

MAX_PROFILE_BYTES = 1 << 20  # bytes of a profile
PLACE_KEYS = {
    "project": ("PROJECT_ID", "PROJECT", "GOOGLE_CLOUD_PROJECT"),
    "region": ("REGION", "CLUSTER_REGION"),
    "cluster": ("CLUSTER_NAME",),
    "registry": ("ARTIFACT_REGISTRY",),
    "bucket": ("GCS_BUCKET",),
    "queue": ("KUEUE_NAME",),
}
"""A profile's key of a place (project, region, …) -> the variables of gpu-recipes commands that it fills in.

bucket and queue are values of the chart too; the others are stored for these variables alone.
"""
_VALID_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,62}")
_FILE_COMMENT = "# Default values for the form of every recipe; a4 profiles NAME shows them.\n"


@dataclass(frozen=True, slots=True)
class LaunchProfile:
    name: str
    values: Mapping[str, Value]  # nested; only what can be used
    place_values: Mapping[str, str] = field(default_factory=dict)  # of `PLACES`, those that are no values of the chart
    problems: tuple[FieldProblem, ...] = ()  # keys that no recipe has, and values that may not stand in a profile


class Profiles:
    def __init__(self, chart_catalog: Callable[[], ChartCatalog], folder: Path | None = None) -> None:
        self._chart_catalog, self._folder = chart_catalog, folder

    @property
    def folder(self) -> Path:
        return self._folder or config_folder() / "profiles"

    async def names(self) -> tuple[str, ...]:
        return await asyncio.to_thread(self._list_names_now)

    async def read(self, name: str) -> LaunchProfile:
        """Read a profile. Raises BadInput if it does not exist or is not YAML."""
        return await asyncio.to_thread(self._read_profile, name)

    async def values(self, name: str, recipe: str) -> dict[str, Value]:
        """The values of a profile for a recipe's fields. Raises BadInput for unknown keys or an unreadable profile."""
        profile = await self.read(name)
        if profile.problems:
            words = " ".join(each.message for each in profile.problems)
            raise BadInput(f"Profile {name}: {words}", f"Correct {self._path_of(name)}.")
        paths = {field.path for field in self._chart_catalog().fields(recipe)}
        found: dict[str, Value] = {}
        for path, value in iter_field_values(profile.values, self._all_fields()):
            if path in paths:
                set_path(found, path, value)
        return found

    async def place_variables(self) -> dict[str, str]:
        """The default profile's project, region and the like as variables for pasted commands; empty without one."""
        name = await self.default_name()
        if not name:
            return {}
        profile = await self.read(name)
        known = {
            place: str(profile.values[place]) for place in PLACE_KEYS if isinstance(profile.values.get(place), str)
        }
        known |= profile.place_values
        return {variable: value for place, value in known.items() for variable in PLACE_KEYS[place]}

    async def default_name(self) -> str:
        """Name of the default profile; empty if there is none."""
        try:
            return (await asyncio.to_thread((self.folder / "default").read_text)).strip()
        except FileNotFoundError:
            return ""

    async def make_default(self, name: str) -> None:
        """Make this profile the default; an empty name clears the default."""
        if name:
            await self.read(name)
        await asyncio.to_thread(self._write_private, self.folder / "default", f"{name}\n")

    async def change_profile(self, name: str, settings: Sequence[str] = (), unset: Sequence[str] = ()) -> LaunchProfile:
        """Set (`path=value`) and unset (`path`) values in a profile, created if missing. BadInput if one is invalid."""
        if not _VALID_NAME.fullmatch(name) or name == "default":
            raise BadInput(f"{name} cannot be the name of a profile.", "Letters, digits, dots, dashes; not default.")
        return await asyncio.to_thread(self._change_in_thread, name, settings, unset)

    async def delete_profile(self, name: str) -> None:
        await self.read(name)
        await asyncio.to_thread(self._path_of(name).unlink)
        if await self.default_name() == name:
            await self.make_default("")

    def _path_of(self, name: str) -> Path:
        return self.folder / f"{name}.yaml"

    def _list_names_now(self) -> tuple[str, ...]:
        return tuple(sorted(path.stem for path in self.folder.glob("*.yaml") if _VALID_NAME.fullmatch(path.stem)))

    def _read_profile(self, name: str) -> LaunchProfile:
        path = self._path_of(name)
        if not _VALID_NAME.fullmatch(name) or not path.is_file():
            known = ", ".join(self._list_names_now())
            hint = f"There are: {known}." if known else f"Make one: a4 profiles {name} --set queue=a4"
            raise NotThere(f"There is no profile {name}.", hint)
        fields = self._all_fields()
        values = _load_values(path)
        places = {each: str(values.pop(each)) for each in PLACE_KEYS if each in values and each not in fields}
        problems: list[FieldProblem] = []
        nested: dict[str, Value] = {}
        for each, value in iter_field_values(values, fields):
            if each in fields:
                set_path(nested, each, value)
            else:
                words = f"{each} is not a value of any recipe{suggest_path(each, [*fields])}"
                problems.append(FieldProblem(each, words))
        safe, left_out = without_secrets(tuple(fields.values()), nested)
        problems += [FieldProblem(each, f"{each} is a secret, which is not allowed in a profile.") for each in left_out]
        return LaunchProfile(name, safe, places, tuple(problems))

    def _change_in_thread(self, name: str, settings: Sequence[str], unset: Sequence[str]) -> LaunchProfile:
        fields = self._all_fields()
        tree = parse_settings(settings, {})
        here = {place: as_word(tree.pop(place)) for place in PLACE_KEYS if place in tree and place not in fields}
        given = convert_values(tuple(fields.values()), tree, {}, "any recipe")
        wrong = self._chart_catalog().checker.problems(given)
        if wrong:
            raise BadInput(" ".join(each.message for each in wrong))
        _, secret = without_secrets(tuple(fields.values()), given)
        if secret:
            raise BadInput(f"{secret[0]} is a secret, which is not allowed in a profile.", "Keep it in a Secret.")
        path = self._path_of(name)
        values = overlay_values(_load_values(path) if path.exists() else {}, {**given, **here})
        for each in unset:
            above, _, last = each.rpartition(".")
            level = get_path(values, above) if above else values
            if not isinstance(level, dict) or last not in level:
                raise BadInput(f"Profile {name} does not set {each}.")
            del level[last]
        self._write_private(path, _FILE_COMMENT + yaml.safe_dump(values, sort_keys=False, allow_unicode=True))
        return self._read_profile(name)

    def _write_private(self, path: Path, text: str) -> None:
        make_private(self.folder)
        atomic_write(path, text.encode())

    def _all_fields(self) -> dict[str, Field]:
        catalogue = self._chart_catalog()
        return {field.path: field for recipe in catalogue.recipes() for field in catalogue.fields(recipe.id)}


def _load_values(path: Path) -> dict[str, Value]:
    try:
        found = load_without_references(read_own_file(path, MAX_PROFILE_BYTES).decode())
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise BadInput(f"The profile {path} cannot be read: {why}.") from error
    except NotPlainError as error:
        place = f"line {error.line}: " if error.line else ""
        raise BadInput(f"The profile {path} is not valid YAML: {place}{error.why}.", "Correct it.") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise BadInput(f"The profile {path} is not a map of names and values.", "Begin with, for example, queue: a4")
    return found
