"""`--help` on a real terminal: in colours, unless the person or the terminal has none; in a pipe as plain text."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminals import run_on_terminal

A4 = Path(sys.executable).with_name("a4")
SEQUENCE = re.compile(rb"\x1b\[\d+m")


def on_terminal(*words: str, **environment: str) -> bytes:
    """What the command writes to a terminal."""
    variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    variables |= {"TERM": "xterm-256color", "COLUMNS": "100"} | environment
    code, shown = run_on_terminal([A4, *words], env=variables)
    assert code == 0
    return shown.encode()


@pytest.mark.slow(reason="commands as processes on a practice cluster")
@pytest.mark.parametrize("words", [("--help",), ("jobs", "--help"), ("launch", "-h")])
def test_help_is_in_colours_and_says_the_same(words: tuple[str, ...]) -> None:
    plain = subprocess.run([A4, *words], capture_output=True, check=True, env={**os.environ, "COLUMNS": "100"}).stdout
    assert b"\x1b" not in plain
    painted = on_terminal(*words)
    assert b"\x1b[1musage:\x1b[0m a4" in painted
    assert b"\x1b[36m--namespace\x1b[0m N" in painted
    assert SEQUENCE.sub(b"", painted) == plain


def test_commands_are_in_colour() -> None:
    assert b"\n  \x1b[36mpools\x1b[0m  " in on_terminal("--help")


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_without_colours_it_is_plain(environment: dict[str, str]) -> None:
    assert b"\x1b" not in on_terminal("--help", **environment)
