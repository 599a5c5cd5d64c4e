"""What a person pastes to fill the form: a values file of this chart or of a document's, or a helm command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from console.errors import BadInput
from console.kube.nested_values import Value, look, put
from console.launch.gpu_recipes_import import LAUNCHERS, MARKS, File, Translated, assemble, remaining, translate
from console.launch.helm_command import HelmLine, looks_like_helm, parse_helm_line, spell_way
from console.launch.recipes import Draft, Field, FieldKind, Remark, coerce
from console.launch.schema import leaves, nearest
from console.launch.yaml_read import LONGEST, Node, TextFault, parse_text, plain_value, read_values

if TYPE_CHECKING:
    from console.launch.install import Catalogue

    Changes = Callable[[str, Mapping[str, Value]], dict[str, Value]]

_RECIPE = "a4.console/recipe="


class Pasting:
    """Reads what was pasted against one catalogue; `changes` gives what values change of a recipe's defaults."""

    def __init__(self, catalogue: Catalogue, changes: Changes) -> None:
        self._catalogue = catalogue
        self._changes = changes
        self._known = [path for path, part in leaves(catalogue.schema) if not part.get("x-hidden")]

    async def paste(self, recipe: str, text: str, variables: Mapping[str, str]) -> Draft:
        """The draft; its problems say why nothing could be read."""
        try:
            if looks_like_helm(text):
                return await self._command(recipe, parse_helm_line(text, variables))
            root, repeated = parse_text(text)
            if repeated:
                return Draft(problems=repeated)
            return self._file(recipe, root)
        except TextFault as error:
            return Draft(problems=(error.remark,))
        except BadInput as error:
            return Draft(problems=(Remark("", str(error)),))

    # a values file

    def _file(self, recipe: str, root: Node | None) -> Draft:
        tree = plain_value(root, {}) if root else {}
        assert isinstance(tree, Mapping)
        if _is_seed(tree):
            out = Translated()
            return self._translated(recipe, dict(tree), {}, out)
        read = read_values(root, self._catalogue.schema, {})
        known, left = self._recipe(read.recipe, recipe)
        unknown_keys = self._strangers(known, read.values)
        remarks = [Remark(path, words, read.line(tuple(path.split(".")))) for path, words in unknown_keys]
        return Draft(
            self._changes(known, read.values),
            read.values,
            known if read.recipe else "",
            left_out=(*left, *read.problems, *remarks),
            notes=tuple(read.notes),
        )

    def _recipe(self, word: str, otherwise: str) -> tuple[str, list[Remark]]:
        """The recipe a text names, or else the form's."""
        try:
            return self._catalogue.recipe(word or otherwise).id, []
        except BadInput as error:
            return self._catalogue.recipe(otherwise).id, [Remark("recipe", error.message)]

    def _strangers(self, recipe: str, values: Mapping[str, Value]) -> list[tuple[str, str]]:
        """Values that stand there and that the recipe's form has not."""
        mine = {field.path for field in self._catalogue.fields(recipe)}
        return [
            (path, f"{path} was not imported: it has no effect in {recipe}.")
            for path in self._known
            if path not in mine and look(values, path) is not None
        ]

    # a command

    async def _command(self, recipe: str, line: HelmLine) -> Draft:
        paths = [*line.files, *(str(each.value) for each in line.settings if each.file)]
        texts = await asyncio.to_thread(_read, paths)
        out = Translated()
        trees = [tree for path in line.files if (tree := self._values_file(path, texts, out)) is not None]
        root = assemble(trees, line.settings, out)
        named = next((each.removeprefix(_RECIPE) for each in line.labels.split(",") if each.startswith(_RECIPE)), "")
        own = look(root, "recipe.id")
        draft = self._translated(str(own) if isinstance(own, str) else named or recipe, root, texts, out)
        notes = list(draft.notes)
        if line.others:
            notes.append(Remark("", f"Only the first of {line.others + 1} helm commands was imported."))
        left = [*draft.left_out]
        if line.unknown:
            words = f"The release's name was not imported: {', '.join(line.unknown)} is not known here."
            left.append(Remark("name", words))
        told = draft.recipe or (self._recipe(named, recipe)[0] if named else str(own or ""))
        return Draft(draft.values, draft.given, told, line.name, line.namespace, (), tuple(left), tuple(notes))

    def _values_file(self, path: str, texts: Mapping[str, str], out: Translated) -> Mapping[str, Any] | None:
        if path not in texts:
            words = (
                f"{path} cannot be read from here, so its values were not imported; paste its text if it was changed."
            )
            out.note("", words)
            return None
        try:
            root, repeated = parse_text(texts[path])
        except TextFault as error:
            out.leave(path, error.message.rstrip("."))
            return None
        out.notes += repeated
        tree = plain_value(root, {}) if root else {}
        return tree if isinstance(tree, Mapping) else None

    # both

    def _translated(self, recipe: str, root: dict[str, Any], texts: Mapping[str, str], out: Translated) -> Draft:
        schema = self._catalogue.schema
        translate(root, set(schema["properties"]), texts, out)
        known, left = self._recipe(out.recipe, self._recipe(recipe, recipe)[0])
        fields = {field.path: field for field in self._catalogue.fields(known)}
        values: dict[str, Value] = {}
        for path, given in (*out.values, *self._own(root, out)):
            self._put(values, fields, known, path, given, out)
        left_out = (*left, *out.left_out)
        told = known if out.recipe else ""
        return Draft(self._changes(known, values), values, told, left_out=left_out, notes=tuple(out.notes))

    def _own(self, root: dict[str, Any], out: Translated) -> list[tuple[str, Any]]:
        """What is left in the tree by the names of this chart; unknown names are told."""
        found: list[tuple[str, Any]] = []
        for path in self._known:
            way = tuple(path.split("."))
            value = remaining(root, way)
            if value is not None:
                found.append((path, value))
        remaining(root, ("recipe", "id"))
        for unknown in _ways(root, ()):
            path = spell_way(unknown)
            out.left_out.append(Remark(path, f"{path} is not a value of the chart{nearest(path, self._known)}"))
        return found

    @staticmethod
    def _put(
        values: dict[str, Value], fields: Mapping[str, Field], recipe: str, path: str, given: Any, out: Translated
    ) -> None:
        name = ""
        field = fields.get(path)
        if field is None:
            above, _, name = path.partition(".")
            field = fields.get(above) if above == "env" else None
        if field is None:
            if given not in ("", "false", False, None):
                out.leave(path, f"it has no effect in {recipe}")
            return
        try:
            value = _fitting(field, {name: given} if name else given)
        except BadInput as error:
            out.leave(path, error.message.rstrip("."))
            return
        before = look(values, field.path)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            value = {**before, **value}
        put(values, field.path, value)


def _is_seed(tree: Mapping[str, Value]) -> bool:
    network = tree.get("network")
    return bool(MARKS & set(tree)) or (
        isinstance(network, Mapping) and {"gibVersion", "ncclSettings"} & set(network) != set()
    )


def _fitting(field: Field, given: Any) -> Value:
    """A value of a command in the field's own kind; BadInput when it is none of that kind."""
    if isinstance(given, File):
        raise BadInput(f"{field.title} takes no file")
    match field.kind:
        case FieldKind.MAP:
            if not isinstance(given, Mapping):
                raise BadInput(f"{field.title} must be a map of names and values")
            return {str(key): None if item is None else _word(item) for key, item in given.items()}
        case FieldKind.LIST if isinstance(given, list):
            return [_word(each) for each in given if each is not None]
        case FieldKind.ROWS if isinstance(given, list):
            return given
        case _ if isinstance(given, (list, Mapping)):
            raise BadInput(f"{field.title} must be a single value")
        case FieldKind.TEXT | FieldKind.BLOCK | FieldKind.CHOICE:
            # A word that is no choice goes into the form as it is, where it is marked.
            return _word(given)
    return coerce(field, _word(given))


def _word(given: Any) -> str:
    if isinstance(given, bool):
        return "true" if given else "false"
    return str(given)


def _ways(value: Any, way: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    if isinstance(value, Mapping):
        return [each for name, item in value.items() for each in _ways(item, (*way, str(name)))]
    return [way] if value is not None else []


def _read(paths: list[str]) -> dict[str, str]:
    """Texts of the files that are there; a path of another machine is no fault."""
    found: dict[str, str] = {}
    for path in paths:
        file = Path(path).expanduser()
        if Path(path).name in LAUNCHERS:
            continue
        try:
            if file.is_file() and file.stat().st_size <= LONGEST:
                found[path] = file.read_text()
        except (OSError, UnicodeDecodeError, ValueError):
            continue
    return found
