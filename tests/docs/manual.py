"""The manual page a4(1), from the parsers of the commands."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from screens.cli import command_line
from screens.cli.arguments import ALL_EXIT_CODES, EXIT_CODES
from tests.docs.commands import commands, help_of, shape, spellings, usage

FILES = (
    ("$XDG_CONFIG_HOME/a4/config.toml", "your settings, in ~/.config unless the variable is set; see a4 config"),
    ("$XDG_STATE_HOME/a4", "history of runs, logs, profiles and tunnels, in ~/.local/state unless the variable is set"),
)
ENVIRONMENT = (
    ("KUBECONFIG", "the kubeconfig files, unless --kubeconfig names one"),
    ("NO_COLOR", "no colours, whatever its value"),
    ("A4_NOTIFY", "0, no, off or false: the terminal is not told of alarms"),
)


def manual_page() -> str:
    """Every command and what it takes, as roff."""
    parser = command_line.whole_parser()
    named = commands(parser)
    everywhere = {option for action in parser._actions for option in action.option_strings}
    lines = [
        '.\\" Written by `make docs` from the parsers of the commands; a test compares the two.',
        '.TH A4 1 "" "a4" "User Commands"',
        ".SH NAME", r"a4 \- console for training on Google Cloud A4 machines",
        ".SH SYNOPSIS", ".B a4", "[OPTIONS] [COMMAND ...]",
        ".SH DESCRIPTION", _text(parser.description or ""),
        ".SH OPTIONS", "Every command takes these.", *_items(parser._actions),
        ".SH COMMANDS",
    ]  # fmt: skip
    for name, each in named.items():
        own = [action for action in each._actions if not everywhere & set(action.option_strings)]
        lines += [f'.SS "a4 {_text(name)}"', _text(" ".join((each.description or "").split())), ".PP", ".nf"]
        options = [action for action in own if action.option_strings]
        lines += [f"{_text(line)}" for line in usage(each, [word for word in own if word not in options], options)]
        lines += [".fi", *_items(own)]
        if more := (each.epilog or "").replace(EXIT_CODES, "").strip():
            written = [_text(line) for line in more.splitlines()]
            lines += [".PP", *([".nf", *written, ".fi"] if len(written) > 1 else written)]
    lines += [".SH EXIT STATUS", _text(f"{ALL_EXIT_CODES[:1].upper()}{ALL_EXIT_CODES[1:]}.")]
    for title, entries in (("FILES", FILES), ("ENVIRONMENT", ENVIRONMENT)):
        lines += [f".SH {title}", *(line for name, what in entries for line in _item(name, what))]
    return "\n".join(lines) + "\n"


def _items(actions: Iterable[argparse.Action]) -> list[str]:
    named = [(each, ", ".join(spellings(each)) if each.option_strings else shape(each)) for each in actions]
    return [line for each, name in named if each.help for line in _item(name, help_of(each))]


def _item(name: str, what: str) -> list[str]:
    return [".TP", rf"\fB{_text(name)}\fR", _text(what)]


def _text(words: str) -> str:
    """Plain words, which roff takes as they are."""
    plain = words.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{plain}" if plain.startswith((".", "'")) else plain
