"""Helm's words for what went wrong, as our own failures."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.errors import (
    BadInput,
    BadKubeconfig,
    Conflict,
    ConsoleError,
    NotAllowed,
    NotFound,
    NotLoggedIn,
    ReleaseFailed,
    Unreachable,
)
from console.models.launch import FieldProblem

if TYPE_CHECKING:
    from collections.abc import Callable


class BadValues(BadInput):
    """Helm refused the values; `problems` has one entry a value, paths dotted."""

    def __init__(self, message: str, hint: str = "", *, problems: tuple[FieldProblem, ...] = ()) -> None:
        super().__init__(message, hint)
        self.problems = problems


def translate(text: str, kind: str, failed: str) -> ConsoleError:
    """One of our failures for Helm's words, by what they say; Helm's own kinds (`kind`) are few."""
    problems = schema_problems(text)
    if problems:
        message = "; ".join(f"{problem.path or 'values'}: {problem.message}" for problem in problems)
        return BadValues(f"{failed}: {message}.", problems=problems)
    why = first_sentence(text)
    for pattern, made in _MEANINGS:
        if re.search(pattern, text):
            return made(f"{failed}: {why}.")
    if kind == "HelmNotFoundError":
        return NotFound(f"{failed}: there is no such release.", status=404, reason="NotFound")
    return ReleaseFailed(f"{failed}: {why}.")


_MEANINGS: tuple[tuple[str, Callable[[str], ConsoleError]], ...] = (
    (r"stat .*no such file|context .* does not exist|invalid configuration|error loading config", BadKubeconfig),
    (r"\bUnauthorized\b|must be logged in", lambda text: NotLoggedIn(text, "Log in again.", status=401)),
    (
        r"\bis forbidden: User\b|\bforbidden: User\b",
        lambda text: NotAllowed(text, "Ask for the right to do this in the namespace.", status=403, reason="Forbidden"),
    ),
    (
        r"cannot reuse a name that is still in use|cannot be imported into the current release",
        lambda text: Conflict(text, "Choose another name, or remove what has it.", status=409, reason="AlreadyExists"),
    ),
    (
        r"no matches for kind \"JobSet\"",
        lambda text: ReleaseFailed(text, "This cluster has no JobSet API; ask its administrator to install JobSet."),
    ),
    (
        r"namespaces? \"[^\"]*\" not found",
        lambda text: NotFound(text, "Choose a namespace that exists.", status=404, reason="NotFound"),
    ),
    (
        r"failed calling webhook",
        lambda text: ReleaseFailed(text, "A controller of the cluster (Kueue or JobSet) does not answer."),
    ),
    (
        r"cluster unreachable|connection refused|no such host|i/o timeout|deadline exceeded|x509|TLS handshake|EOF$",
        lambda text: Unreachable(text, "Check the network, the VPN and the kubeconfig."),
    ),
)


def schema_problems(text: str) -> tuple[FieldProblem, ...]:
    """The violations in Helm's report of values that do not fit the schema; none when it reports something else.

    A line of two spaces and more says again, in parts, what the line above says.
    """
    if "schema(s)" not in text:
        return ()
    lines = re.findall(r"^- at '([^']*)': (.*)$", text, re.MULTILINE)
    return tuple(FieldProblem(path.strip("/").replace("/", "."), why) for path, why in lines)


def first_sentence(text: str) -> str:
    """Helm's message without the objects that API servers repeat in it, on one line, at most 400 characters."""
    short = re.sub(r"Invalid value: [\[{].*[\]}]: ", "", text)
    short = re.sub(r"\s+", " ", short).strip().rstrip(".")
    return short if len(short) <= 400 else short[:397] + "..."
