"""Where the name of something in the cluster stands in what is typed (pure)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.models.launch import FieldKind

if TYPE_CHECKING:
    from console.models.launch import Field

BUCKET_AT = "/gcs"
"""Where a bucket is mounted unless somebody says otherwise."""


def part_typed(field: Field, text: str) -> str:
    """What is typed of the name: all of the text, but in NAME=text only one side of it."""
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return text
    before, _, after = text.partition("=")
    return after.partition("/")[0] if field.choices_from == "secrets" else before


def completed(field: Field, text: str, name: str) -> str:
    """The text with that name in its place."""
    if field.kind is not FieldKind.MAP or field.choices_from == "nodelabels":
        return name
    before, _, after = text.partition("=")
    if field.choices_from == "secrets":
        return f"{before or 'NAME'}={name}/{after.partition('/')[2]}"
    return f"{name}={after or BUCKET_AT}" if field.choices_from == "buckets" else f"{name}={after}"
