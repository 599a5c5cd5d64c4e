"""`a4 completion`, and the completion of words for the shell script that it prints.

Names come from the cluster if they come at once; no failure is shown, since a person is typing.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from threading import Thread
from typing import Any, Literal

import msgspec

from console.errors import ConsoleError
from console.session import load_catalog
from screens.cli.arguments import Command, Commands, Options, word
from screens.cli.output import print_line

NAMES_TIMEOUT = 0.5
"""Seconds to wait for names from the cluster."""
_KIND_OF_FIELD = {
    "jobs": "jobs",
    "node": "nodes",
    "nodes": "nodes",
    "pool": "pools",
    "namespace": "namespaces",
    "context": "contexts",
}
_KIND_OF_METAVAR = {"JOB": "jobs", "POD": "ranks", "NAME|none": "queues"}
_FILE_METAVARS = {"FILE", "DIR", "FOLDER", "SOURCE", "TARGET", "SCENARIO", "folder"}
_REMOTE_PATH_FIELDS = {"place", "sources", "target"}
"""Fields that take JOB:POD:PATH."""


def print_script(options: CompletionOptions) -> int:
    from argcomplete.shell_integration import shellcode

    code = shellcode(["a4"], shell=options.shell, complete_arguments=["-o", "nospace"]).strip()
    print_line(code if options.shell == "zsh" else code.removeprefix("#compdef a4\n"))
    return 0


def print_completions(parser: argparse.ArgumentParser, actions: Iterable[argparse.Action]) -> None:
    """Print the completions for the line in $COMP_LINE and end the process."""
    import argcomplete

    for action in actions:
        if action.nargs != 0 and action.choices is None:
            action.completer = _completer(action)  # type: ignore[attr-defined]  # argcomplete looks for it there
    argcomplete.autocomplete(parser, always_complete_options=False)


def _completer(action: argparse.Action) -> Callable[..., Collection[str]]:
    from argcomplete.completers import FilesCompleter

    def found(prefix: str, parsed_args: argparse.Namespace, **_: object) -> Collection[str]:
        given = vars(parsed_args)
        if action.metavar == "RECIPE":
            return [each.id for each in load_catalog().recipes()]
        if action.dest == "set" and given.get("recipe"):
            fields = load_catalog().fields(given["recipe"])
            path, equals, _value = prefix.partition("=")
            if equals:
                return [f"{path}={choice}" for each in fields if each.path == path for choice in each.choices]
            return [f"{each.path}=" for each in fields]
        if action.dest in _REMOTE_PATH_FIELDS:
            files = FilesCompleter()(prefix) if action.metavar in _FILE_METAVARS else ()
            return [*(f"{job}:" for job in _cluster_names(given, "jobs")), *files]
        if action.metavar in _FILE_METAVARS:
            return FilesCompleter()(prefix)
        if action.metavar == "JOB" and prefix.startswith("pod/"):
            return [f"pod/{each}" for each in _cluster_names(given, "pods")]
        kind = _KIND_OF_FIELD.get(action.dest) or _KIND_OF_METAVAR.get(str(action.metavar), "")
        return _cluster_names(given, kind) if kind else ()

    return found


def _cluster_names(names: dict[str, Any], kind: str) -> list[str]:
    if names.get("demo"):
        return []  # the practice cluster would start first
    found: list[str] = []

    def ask() -> None:
        import asyncio

        from console.kube.completion_names import object_names

        context, namespace, job = (names.get(each, "") for each in ("context", "namespace", "job"))
        with suppress(ConsoleError, OSError, msgspec.MsgspecError):
            found.extend(asyncio.run(object_names(names.get("kubeconfig"), context, namespace, kind, job)))

    # Not a timeout of asyncio: the look-up of a host's name cannot be ended, and this process ends without it.
    asking = Thread(target=ask, daemon=True)
    asking.start()
    asking.join(NAMES_TIMEOUT)
    return found


class CompletionOptions(Options):
    shell: Literal["bash", "zsh", "fish"] = word(choices=("bash", "zsh", "fish"))


COMMANDS: Commands = {
    "completion": Command(
        print_script,
        CompletionOptions,
        description="The script by which a shell completes a4's words; names of jobs, pods, nodes and queues are those "
        "of the cluster, if it answers within half a second.",
        epilog='bash: put eval "$(a4 completion bash)" into ~/.bashrc\nzsh: put eval "$(a4 completion zsh)" into '
        "~/.zshrc, after compinit\nfish: a4 completion fish > ~/.config/fish/completions/a4.fish",
    )
}
