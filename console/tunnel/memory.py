"""What is kept between runs: the local port of each remote one, and profiles; two small files, 0600."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from console.errors import BadInput
from console.folders import make_private
from console.models.tunnel import Address, Profile

_MOST = 500
"""Ports remembered; the oldest are forgotten."""


def state_folder() -> Path:
    """Where this user's tunnels write; made (0700) if it is not there."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    folder = Path(base) / "a4" / "tunnels"
    make_private(folder)
    return folder


def _config() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "a4" / "tunnels.json"


def read_json(path: Path) -> Any:
    """What a file holds; None if there is none, or it is broken: all of this can be done without."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


def write_json(path: Path, value: Any) -> None:
    """Write a file whole or not at all, for this user only."""
    make_private(path.parent)
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    new.replace(path)


def _key(server: str, address: Address, remote: int) -> str:
    return f"{server} {address.namespace} {address.slug} {remote}"


def last_port(server: str, address: Address, remote: int) -> int:
    """The local port that led there last; 0 if none did. Blocking."""
    ports = read_json(state_folder() / "ports.json")
    found = ports.get(_key(server, address, remote)) if isinstance(ports, dict) else None
    return found if isinstance(found, int) else 0


def remember_port(server: str, address: Address, remote: int, local: int) -> None:
    """Note it for the next time. Blocking."""
    path = state_folder() / "ports.json"
    ports = read_json(path)
    ports = ports if isinstance(ports, dict) else {}
    key = _key(server, address, remote)
    if ports.get(key) != local:
        ports.pop(key, None)
        ports[key] = local
        write_json(path, dict(list(ports.items())[-_MOST:]))


def profiles() -> tuple[Profile, ...]:
    """All that were saved, by name. Blocking."""
    held = read_json(_config())
    found = []
    for name, each in sorted(held.items()) if isinstance(held, dict) else ():
        try:
            found.append(Profile(**{**each, "name": name, "ports": tuple(map(str, each["ports"]))}))
        except (TypeError, KeyError):
            continue  # written by another version, or by hand
    return tuple(found)


def profile(name: str) -> Profile:
    """The profile of that name; BadInput names those there are. Blocking."""
    every = profiles()
    found = next((each for each in every if each.name == name), None)
    if found is None:
        known = f"There are: {', '.join(each.name for each in every)}." if every else "Save one: a4 forward … --save."
        raise BadInput(f"There is no profile {name}.", known)
    return found


def save_profile(made: Profile) -> None:
    """Save it, in place of one of the same name. Blocking."""
    held = read_json(_config())
    values = asdict(made)
    name = values.pop("name")
    write_json(_config(), {**(held if isinstance(held, dict) else {}), name: values})


def forget_profile(name: str) -> None:
    """Remove it; BadInput if there is none. Blocking."""
    profile(name)
    held = read_json(_config())
    held.pop(name)
    write_json(_config(), held)
