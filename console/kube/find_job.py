"""Finds the job and the node that a command line names; an error lists the existing ones (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from console.errors import BadInput, NotAllowed, NotFound, Unreachable
from console.kube.snapshot import Fleet, WatchState
from trainlog import lazy_pattern

if TYPE_CHECKING:
    from console.kube.objects.jobset import JobSet
    from console.kube.objects.node import Node


def find_job(fleet: Fleet, namespace: str, name: str) -> JobSet:
    """The JobSet of that name. Raises NotFound, which lists the existing ones, or why none can be listed."""
    job = fleet.jobsets.get((namespace, name))
    if job is None:
        require_listed(fleet, "jobsets", f"Whether there is a job {name} in namespace {namespace}")
        known = sorted(other for where, other in fleet.jobsets if where == namespace)
        there = other_namespaces_hint(fleet, namespace, name) or known_jobs_hint(name, known)
        raise NotFound(f"There is no job {name} in namespace {namespace}.", there)
    return job


def known_jobs_hint(name: str, known_names: Sequence[str]) -> str:
    """A hint that lists the jobs of the namespace, the most similar name first."""
    if not known_names:
        return "There are none; a4 jobs -A lists those of all namespaces."
    from difflib import get_close_matches  # only for who errs

    near = get_close_matches(name, known_names, 1)
    return f"{f'Did you mean {near[0]}? ' if near else ''}There are: {', '.join(known_names)}."


def other_namespaces_hint(fleet: Fleet, namespace: str, name: str) -> str:
    """A hint that names other namespaces with a job of that name; empty if there are none that may be listed."""
    return format_other_namespaces(
        sorted(where for where, other in fleet.jobsets if other == name and where != namespace)
    )


def format_other_namespaces(namespaces: Sequence[str]) -> str:
    """The text of the hint "there is one in namespace X" for these namespaces; empty for none."""
    if not namespaces:
        return ""
    noun = "namespace" if len(namespaces) == 1 else "namespaces"
    return f"A job of that name is in {noun} {', '.join(namespaces)}: add -n {namespaces[0]}."


def require_listed(fleet: Fleet, plural: str, action: str) -> None:
    """Raise NotAllowed, NotFound or Unreachable, begun with `action`, if this kind cannot be listed."""
    link = fleet.links.get(plural)
    if link is None:
        return
    if link.state is WatchState.FORBIDDEN:
        raise NotAllowed(f"{action} is not known: {link.why}", link.hint, status=403)
    if link.state is WatchState.STALE and not getattr(fleet, plural):
        raise Unreachable(f"{action} is not known: {link.why}", link.hint)
    if link.state is WatchState.ABSENT:
        raise NotFound(link.why, link.hint, status=404)


_NAMESPACED_COMMANDS = (  # those that look in one namespace
    "alarms", "code", "cp", "doctor", "exec", "facts", "forward", "gpus", "hang", "jobs", "launch", "logs",
    "ls", "nccl", "nccl-quick", "pods", "preflight", "releases", "rm", "shell", "ssh", "stop",
    "store-logs", "training", "wait", "why", "workloads",
)  # fmt: skip
_COMMAND_IN_HINT = lazy_pattern(
    rf"\ba4 (?=(?:{'|'.join(sorted(_NAMESPACED_COMMANDS, key=len, reverse=True))})\b(?!-)(?! -A)(?! --orphaned))"
)


def with_namespace_option(text: str, namespace: str) -> str:
    """Add `-n NAMESPACE` to the a4 commands in a text; unchanged for an empty namespace."""
    return _COMMAND_IN_HINT.sub(lambda _: f"a4 -n {namespace} ", text) if namespace else text


MAX_NAMED_NODES = 8  # nodes that a refusal names


def find_node(nodes: Mapping[tuple[str, str], Node], typed_name: str) -> Node | None:
    """The node of that name or short name; None if there is none. Raises BadInput if several names end with it."""
    if ("", typed_name) in nodes:
        return nodes["", typed_name]
    pool, _, end = typed_name.rpartition("/")
    # GKE puts eight hexadecimal digits between the name of the pool and the end.
    name = re.compile(
        rf"(?:.*-)?{re.escape(pool)}(?:-[0-9a-f]{{8}})?-{re.escape(end)}" if pool else rf".*-{re.escape(end)}"
    )
    found = [node for node in nodes.values() if end and "-" not in end and name.fullmatch(node.name)]
    if len(found) > 1:
        more = f" and {len(found) - MAX_NAMED_NODES} more" if len(found) > MAX_NAMED_NODES else ""
        names = ", ".join(sorted(node.name for node in found)[:MAX_NAMED_NODES])
        raise BadInput(f"{typed_name} is the end of several nodes' names: {names}{more}.", "Give the whole name.")
    return found[0] if found else None
