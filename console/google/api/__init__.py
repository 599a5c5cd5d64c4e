"""Clients of Google's APIs, one module per service and library; they take a second to load, so they load late."""

import asyncio
import importlib
import os
from collections.abc import Iterable
from types import ModuleType

os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it prints news of connections into the terminal otherwise


def members_by_role(bindings: Iterable[tuple[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    """The members of each role in an IAM policy, whose roles may have several bindings."""
    found: dict[str, frozenset[str]] = {}
    for role, members in bindings:
        found[role] = found.get(role, frozenset()) | frozenset(members)
    return found


async def import_google(module: str) -> ModuleType:
    """Import a module that loads Google's libraries, in a thread (a second the first time)."""
    return await asyncio.to_thread(importlib.import_module, module)
