"""Whose something is: the name that a person is known by in a cluster, and where objects of others tell it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OWNER = "a4.console/owner"
"""Label with the short name of who launched it, and annotation with the whole one."""
YOU = "you"
"""Stands for the name of whoever looks."""
_TELLING = ("owner", "user", "username", "creator", "created-by", "submitted-by", "launched-by")
"""Last part of labels and annotations in which other tools say who launched something."""
_TOOLS = frozenset({"app.kubernetes.io/created-by"})
"""A key of that kind that names programs, not people."""
_LONGEST = 63
_ELSE = re.compile(r"[^A-Za-z0-9._-]+")


def short_name(name: str) -> str:
    """The name as the value of a label: of an e-mail address what stands before the @."""
    return _ELSE.sub("-", name.partition("@")[0])[:_LONGEST].strip("-._")


def owner_in(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """Who launched the object with these, as a short name; empty where nothing tells."""
    if named := labels.get(OWNER) or annotations.get(OWNER):
        return short_name(named)
    found = {
        key.rpartition("/")[2]: value
        for marks in (annotations, labels)
        for key, value in marks.items()
        if key not in _TOOLS
    }
    return next((short for key in _TELLING if (short := short_name(found.get(key, "")))), "")
