"""Markdown that the generated pages consist of."""

import re
from collections.abc import Iterable, Sequence


def text(words: str) -> str:
    """Plain words, which no character of theirs turns into markup."""
    return re.sub(r"([<>*_|\[\]])", r"\\\1", words)


def code(words: str) -> str:
    """Words to type, in a cell of a table too."""
    fence = "``" if "`" in words else "`"
    padding = " " if "`" in words else ""
    return f"{fence}{padding}{words}{padding}{fence}".replace("|", r"\|")


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are markdown already."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def anchor(heading: str) -> str:
    """Where a link to a heading leads, as GitHub and GitLab name it."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).replace(" ", "-")
