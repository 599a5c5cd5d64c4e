"""A values file to begin with: every value of a recipe at its default, with what it means above it."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from console.models.launch import Field
from console.parsers.values_write import entry_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from console.models.launch import Recipe

_WIDTH = 110


def write_defaults(recipe: Recipe, fields: Sequence[Field]) -> str:
    """YAML that changes nothing, and that says of each value its title, unit and meaning."""
    head = [
        f"# {recipe.title}: {recipe.summary}",
        f"# Needs {recipe.needs}.",
        f"# Gives {recipe.gives}; {recipe.duration}.",
        f"# Every value stands here at its default. Launch it: a4 launch {recipe.id} -f FILE",
    ]
    tree: dict[str, object] = {}
    for field in fields:
        level = tree
        *above, last = field.path.split(".")
        for name in above:
            whose = {"id": recipe.id} if level is tree and name == "recipe" else {}
            below = level.setdefault(name, whose)
            assert isinstance(below, dict)
            level = below
        level[last] = field
    tree.setdefault("recipe", {"id": recipe.id})
    return "".join(f"{line}\n" for line in (*_wrapped(head), *_lines(tree, 0)))


def _wrapped(lines: Sequence[str], width: int = _WIDTH) -> Iterator[str]:
    for line in lines:
        yield from textwrap.wrap(line, width, subsequent_indent="# ", break_long_words=False, break_on_hyphens=False)


def _lines(tree: dict[str, object], depth: int) -> Iterator[str]:
    pad = "  " * depth
    for name, found in tree.items():
        if depth == 0:
            yield ""
        if isinstance(found, dict):
            yield f"{pad}{name}:"
            yield from _lines(found, depth + 1)
        elif isinstance(found, str):
            yield f"{pad}# Whose values these are: a form that they are pasted into becomes that recipe's."
            yield f"{pad}{name}: {found}"
        else:
            yield from _field_lines(name, found, pad)


def _field_lines(name: str, field: object, pad: str) -> Iterator[str]:
    assert isinstance(field, Field)
    unit = f" ({field.unit})" if field.unit else ""
    words = f"# {field.title}{unit}: {' '.join(field.description.split())}"
    if field.choices:
        words += f" One of {', '.join(field.choices)}."
    if field.examples:
        words += f" For example {'; '.join(' '.join(each.split()) for each in field.examples)}."
    for line in textwrap.wrap(
        words, _WIDTH - len(pad), subsequent_indent="# ", break_long_words=False, break_on_hyphens=False
    ):
        yield pad + line
    for line in entry_lines(name, field.default):
        yield pad + line if line else ""
