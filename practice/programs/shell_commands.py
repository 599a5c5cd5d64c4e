"""Simple commands such as echo, sleep and exit are executed; others are only printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, Step

_SHELLS = ("sh", "bash", "/bin/sh", "/bin/bash")
_FOREVER = 10.0**8
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def run_installer(context: ProgramContext) -> Iterator[Step]:
    yield PrintLine("practice cluster: nothing is copied; the real container installs the gIB NCCL plug-in here")
    yield PauseStep(1.2)


def run_command(context: ProgramContext) -> Iterator[Step]:
    """Yield the steps of a command line of a few simple commands."""
    words = context.argv
    if len(words) >= 3 and words[0] in _SHELLS and words[1].startswith("-") and "c" in words[1]:
        parts = [part for part in re.split(r"[;\n]|&&", words[2]) if part.strip()]
        commands = [shlex.split(part, comments=True) for part in parts]
    else:
        commands = [words]
    for one in commands:
        if one:
            yield from _run_simple_command(one, context)


def _run_simple_command(arguments: list[str], context: ProgramContext) -> Iterator[Step]:
    name = arguments[0].rpartition("/")[2]
    if name == "exec":
        yield from _run_simple_command(arguments[1:] or ["true"], context)
    elif name == "echo":
        yield PrintLine(" ".join(_expand_word(word, context) for word in arguments[1:]))
    elif name == "sleep":
        yield PauseStep(_parse_seconds(arguments[1] if len(arguments) > 1 else "0"))
    elif name in ("exit", "false"):
        yield ExitStep(int(arguments[1]) if len(arguments) > 1 else int(name == "false"))
    elif name in ("true", ":", "set", "trap", "export"):
        return
    elif name == "hostname":
        yield PrintLine(context.env.get("HOSTNAME", ""))
    else:
        yield PrintLine(
            f"practice cluster: this command is not run here, the container only waits: {shlex.join(arguments)}"
        )
        yield PauseStep(_FOREVER)


def _expand_word(word: str, context: ProgramContext) -> str:
    return re.sub(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?", lambda match: context.env.get(match[1], ""), word)


def _parse_seconds(text: str) -> float:
    if text in ("infinity", "inf"):
        return _FOREVER
    unit = text[-1:]
    return float(text[:-1]) * _UNITS[unit] if unit in _UNITS else float(text or 0)
