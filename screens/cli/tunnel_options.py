"""Options of the commands that make and show tunnels: forward, tunnels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

ACTIONS = ("list", "stop", "profiles", "forget")


def add_forward(parser: argparse.ArgumentParser) -> None:
    """a4 forward."""
    parser.usage = (
        "a4 forward JOB POD [LOCAL:]REMOTE ... [--background] [--save NAME] [--json] | a4 forward --profile NAME"
    )
    parser.epilog = (
        "POD counts over the whole job (3) or in one replicated job (workers/3); pod/NAME without an index is a pod by "
        "its name. Without LOCAL a port gets the number it had last time, else its own, else a free one. The ports are "
        "open on this machine only, and lead to whichever pod fills that place when somebody connects."
    )
    parser.add_argument("words", metavar="JOB POD PORT", nargs="*", default=())
    parser.add_argument("--background", action="store_true", help="go on after this command, until the job is over")
    parser.add_argument("--save", metavar="NAME", help="save it as a profile")
    parser.add_argument("--profile", metavar="NAME", help="open what was saved under that name")
    parser.add_argument("--json", action="store_true", help="as JSON, once the ports are open")


def add_tunnels(parser: argparse.ArgumentParser) -> None:
    """a4 tunnels."""
    parser.usage = "a4 tunnels [--json] | a4 tunnels stop NAME ...|--all | a4 tunnels profiles | a4 tunnels forget NAME"
    parser.epilog = (
        "JSON: kind, items with name, namespace, job, rank (index of the pod), context, server, state (ready, "
        "waiting, lost, ended), "
        "words (why), pod, listeners (local, remote, open, connections, sent, received), last_end and last_end_at (of "
        "the last connection that broke), reconnections, since, pid, kept (in the background). Needs no cluster."
    )
    parser.add_argument("action", choices=ACTIONS, nargs="?", default="list", help="default: list")
    parser.add_argument("words", metavar="NAME", nargs="*", default=())
    parser.add_argument("--all", action="store_true", help="with stop: every one")
    parser.add_argument("--json", action="store_true", help="as JSON")
