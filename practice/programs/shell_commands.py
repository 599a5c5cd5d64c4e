"""Simple commands such as echo, sleep and exit are executed; others are only printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, Step

_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_FOREVER = 10.0**8
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def run_installer(place: ProgramContext) -> Iterator[Step]:
    yield PrintLine("practice cluster: nothing is copied; the real container installs the gIB NCCL plug-in here")
    yield PauseStep(1.2)


def run_command(place: ProgramContext) -> Iterator[Step]:
    """Yield the steps of a command line of a few simple commands."""
    words = place.argv
    if len(words) >= 3 and words[0] in _SHELLS and words[1].startswith("-") and "c" in words[1]:
        parts = [part for part in re.split(r"[;\n]|&&", words[2]) if part.strip()]
        commands = [shlex.split(part, comments=True) for part in parts]
    else:
        commands = [words]
    for one in commands:
        if one:
            yield from _run_simple_command(one, place)


def _run_simple_command(words: list[str], place: ProgramContext) -> Iterator[Step]:
    name = words[0].rpartition("/")[2]
    if name == "exec":
        yield from _run_simple_command(words[1:] or ["true"], place)
    elif name == "echo":
        yield PrintLine(" ".join(_expand_word(word, place) for word in words[1:]))
    elif name == "sleep":
        yield PauseStep(_parse_seconds(words[1] if len(words) > 1 else "0"))
    elif name in ("exit", "false"):
        yield ExitStep(int(words[1]) if len(words) > 1 else int(name == "false"))
    elif name in ("true", ":", "set", "trap", "export"):
        return
    elif name == "hostname":
        yield PrintLine(place.env.get("HOSTNAME", ""))
    else:
        yield PrintLine(
            f"practice cluster: this command is not run here, the container only waits: {shlex.join(words)}"
        )
        yield PauseStep(_FOREVER)


def _expand_word(word: str, place: ProgramContext) -> str:
    return re.sub(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", lambda match: place.env.get(match[1], ""), word)


def _parse_seconds(text: str) -> float:
    if text in ("infinity", "inf"):
        return _FOREVER
    unit = text[-1:]
    return float(text[:-1]) * _UNITS[unit] if unit in _UNITS else float(text or 0)
