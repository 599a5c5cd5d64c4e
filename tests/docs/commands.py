"""The page of all commands, from the parsers that read them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from screens.cli import command_line
from screens.cli.arguments import ALL_EXIT_CODES, EXIT_CODES
from tests.docs.markdown import code, table, text

HEAD = """\
# Commands

<!-- Written by `make docs` from the parsers of the commands; a test compares the two. -->

`a4` alone opens the console. With a command it does one thing and ends: what a screen shows, as a table or, with
`--json`, for scripts. `a4 COMMAND --help` says the same as this page.
"""


def commands_page() -> str:
    """Every command, what it takes, and the keys of its JSON."""
    parser = command_line.whole_parser()
    named = commands(parser)
    everywhere = {option for action in parser._actions for option in action.option_strings}
    parts = [
        HEAD,
        "## Options of every command",
        _options(each for each in parser._actions if each.option_strings),
        "## Exit codes and errors",
        text(ALL_EXIT_CODES[:1].upper() + ALL_EXIT_CODES[1:] + "."),
        "## All commands",
        *(part for title, group in command_line.GROUPS.items() for part in (f"### {title}", _links(group))),
        *(_section(name, each, everywhere) for name, each in named.items()),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _subparsers(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[command_line.CommandParser]:  # type: ignore[type-var]
    return next(each for each in parser._actions if isinstance(each, argparse._SubParsersAction))


def commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Name of each command -> its parser."""
    return {name: each.parser for name, each in _subparsers(parser).choices.items()}


def _links(group: dict[str, str]) -> str:
    return table(
        ("command", "what it does"),
        ((f"[{code('a4 ' + name)}](#a4-{name})", text(what)) for name, what in group.items()),
    )


def _section(name: str, parser: argparse.ArgumentParser, everywhere: set[str]) -> str:
    own = [each for each in parser._actions if not everywhere & set(each.option_strings)]
    words = [each for each in own if not each.option_strings]
    options = [each for each in own if each.option_strings]
    parts = [
        f"## a4 {name}",
        text(" ".join((parser.description or "").split())),
        "\n".join(("```text", *usage(parser, words, options), "```")),
    ]
    if any(each.help for each in words):
        parts.append(
            table(("argument", "what it is"), ((code(shape(each)), text(help_of(each))) for each in words if each.help))
        )
    if options:
        parts.append(_options(options))
    if more := (parser.epilog or "").replace(EXIT_CODES, "").strip():
        parts.append(f"```text\n{more}\n```")
    return "\n\n".join(parts)


def usage(parser: argparse.ArgumentParser, words: list[argparse.Action], options: list[argparse.Action]) -> list[str]:
    """What is typed, a line for each way."""
    if parser.usage:
        return [each.strip() for each in re.split(r" \| (?=a4 )", parser.usage.replace("%(prog)s", parser.prog))]
    return [" ".join([parser.prog, *(["[OPTIONS]"] if options else []), *(shape(each) for each in words)])]


def _options(actions: Iterable[argparse.Action]) -> str:
    return table(
        ("option", "what it does"),
        ((", ".join(code(each) for each in spellings(action)), text(help_of(action))) for action in actions),
    )


def spellings(action: argparse.Action) -> list[str]:
    value = "" if action.nargs == 0 else f" {shape(action)}"
    return [*action.option_strings[:-1], f"{action.option_strings[-1]}{value}"]


def shape(action: argparse.Action) -> str:
    """The value as a usage line shows it."""
    choices = "{" + ",".join(map(str, action.choices)) + "}" if action.choices is not None else ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    name = action.metavar or choices or action.dest.upper()
    if isinstance(action.nargs, int):
        return " ".join([name] * action.nargs)
    many = {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} ..."}
    return many.get(str(action.nargs), name)


def help_of(action: argparse.Action) -> str:
    """Its help, in plain words."""
    return (action.help or "") % {**vars(action), "prog": "a4"}
