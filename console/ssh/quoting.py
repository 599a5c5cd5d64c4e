"""Words as ssh's configuration and the shell behind ProxyCommand read them."""

from __future__ import annotations

import re
import shlex

from console.errors import BadInput

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./~-]+")


def word(text: str) -> str:
    """One word of a line: in double quotes where it needs them. Raises BadInput for what no line can hold."""
    if not text.isprintable() or '"' in text or "\\" in text:
        raise BadInput(
            f"{text!r} cannot stand in an ssh config.",
            "Use a path without quotation marks, backslashes and control characters.",
        )
    return text if _PLAIN.fullmatch(text) else f'"{text}"'


def path(text: str) -> str:
    """A path of an option in which ssh replaces %x and ${X}: neither is meant here."""
    if "${" in text:
        raise BadInput(f"{text!r} cannot stand in an ssh config: ssh would take ${{ for a variable.")
    return word(text.replace("%", "%%"))


def command(argv: list[str]) -> str:
    """A command line for ProxyCommand: quoted for the shell, with ssh's own % doubled."""
    if not all(each.isprintable() for each in argv):
        raise BadInput("A path with a control character in it cannot stand in an ssh config.")
    return shlex.join(argv).replace("%", "%%")


def host(text: str) -> str:
    """A name that can stand after Host: no pattern, no blank; other characters become a dash."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-")
