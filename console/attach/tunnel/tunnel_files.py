"""The shared list of this user's tunnels, and saved ports and profiles, in files of mode 0600.

Each tunnel process has a state file and a Unix socket. A list asks each running process for its state over the socket;
the file of a process that is gone holds the tunnel's last state.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import time
import zlib
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from console import folders
from console.errors import BadInput, NotFound, NotThere, Unreachable
from console.kube.pod_address import SSH_PORT, PodAddress

SUGGESTED_PORTS = {8888: "Jupyter", 6006: "TensorBoard", SSH_PORT: "ssh"}


@dataclass(frozen=True, slots=True)
class Listener:
    local: int
    remote: int
    open: int = 0  # connections now
    connections: int = 0
    sent: int = 0  # bytes to the pod
    received: int = 0  # bytes from the pod

    def __str__(self) -> str:
        return f"127.0.0.1:{self.local} forwards to port {self.remote}"


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Local ports that lead to one rank, and their state."""

    name: str
    namespace: str
    job: str  # JOB, or pod/NAME
    rank: str
    context: str
    server: str
    state: str  # ready: the pod runs; waiting: it does not; ended: for good; lost: the API server cannot be reached
    words: str = ""  # why it waits or has ended
    pod: str = ""
    listeners: tuple[Listener, ...] = ()
    last_end: str = ""  # why the last connection that broke did
    last_end_at: float = 0.0
    reconnections: int = 0  # how often another pod took the last one's place
    since: float = 0.0  # when it was opened (Unix time)
    pid: int = 0
    kept: bool = False  # whether it goes on by itself, without a terminal or a console

    @property
    def address(self) -> PodAddress:
        return PodAddress.parse(self.namespace, self.job, self.rank)


@dataclass(frozen=True, slots=True)
class TunnelProfile:
    """A saved tunnel that can be opened by name."""

    name: str
    namespace: str
    job: str
    rank: str
    ports: tuple[str, ...]
    context: str = ""


_MAX_REMEMBERED_PORTS = 500  # ports remembered; the oldest are forgotten


def state_folder() -> Path:
    """The folder for this user's tunnel files; created with mode 0700."""
    folder = folders.state_folder() / "tunnels"
    folders.make_private(folder)
    return folder


def _profiles_file() -> Path:
    return folders.config_folder() / "tunnels.json"


def read_json(path: Path) -> dict[str, Any]:
    """The content of a JSON file; empty if it is missing or broken."""
    try:
        held = json.loads(folders.read_own_file(path))
    except (OSError, ValueError):
        return {}
    return held if isinstance(held, dict) else {}


def write_json(path: Path, value: Any) -> None:
    folders.make_private(path.parent)
    folders.atomic_write(path, json.dumps(value, indent=1).encode())


def _port_key(server: str, address: PodAddress, remote_port: int) -> str:
    return f"{server} {address.namespace} {address.slug} {remote_port}"


def last_port(server: str, address: PodAddress, remote_port: int) -> int:
    """The local port last used for that remote port; 0 if none was. Blocking."""
    found = read_json(state_folder() / "ports.json").get(_port_key(server, address, remote_port))
    return found if isinstance(found, int) else 0


def remember_local_port(server: str, address: PodAddress, remote_port: int, local_port: int) -> None:
    path = state_folder() / "ports.json"
    ports = read_json(path)
    key = _port_key(server, address, remote_port)
    if ports.get(key) != local_port:
        ports.pop(key, None)
        ports[key] = local_port
        write_json(path, dict(list(ports.items())[-_MAX_REMEMBERED_PORTS:]))


def read_profiles() -> tuple[TunnelProfile, ...]:
    found = []
    for name, each in sorted(read_json(_profiles_file()).items()):
        try:
            found.append(TunnelProfile(**{**each, "name": name, "ports": tuple(map(str, each["ports"]))}))
        except (TypeError, KeyError):
            continue  # written by another version, or by hand
    return tuple(found)


def find_profile(name: str) -> TunnelProfile:
    """The profile of that name. Raises NotThere, which lists the known ones. Blocking."""
    every = read_profiles()
    found = next((each for each in every if each.name == name), None)
    if found is None:
        known = f"There are: {', '.join(each.name for each in every)}." if every else "Save one: a4 forward … --save."
        raise NotThere(f"There is no profile {name}.", known)
    return found


def save_profile(profile: TunnelProfile) -> None:
    values = asdict(profile)
    write_json(_profiles_file(), {**read_json(_profiles_file()), values.pop("name"): values})


def forget_profile(name: str) -> None:
    find_profile(name)
    held = read_json(_profiles_file())
    held.pop(name)
    write_json(_profiles_file(), held)


TUNNEL_ANSWER_TIMEOUT = 2.0  # seconds a process has to answer
CLOSE_TIMEOUT = 30.0  # seconds that one which was asked to end, and has answered, has to close its ports
ENDED_SHOWN_SECONDS = 86_400.0  # seconds for which a tunnel that has ended is listed, with why
_MAX_SOCKET_PATH = 100  # characters a socket's path may have (the system takes 107)


def _socket_folder() -> Path:
    """A folder (mode 0700) with a path short enough for Unix sockets. BadInput if others can use it. Blocking."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    folder = Path(runtime, "a4") if Path(runtime).is_absolute() else Path(f"/tmp/a4-{os.geteuid()}")
    with suppress(FileExistsError):  # a link that leads nowhere, or a file
        folders.make_private(folder)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        hint = "Remove it."
        raise BadInput(f"The folder {folder} can be accessed by other users, so no tunnel can be kept in it.", hint)
    return folder


def socket_path(name: str) -> Path:
    path = _socket_folder() / f"{zlib.crc32(f'{state_folder()} {name}'.encode()):08x}.sock"
    if len(str(path)) > _MAX_SOCKET_PATH:
        raise BadInput(f"The path {path} is too long for a socket.", "Set XDG_RUNTIME_DIR to a shorter one.")
    return path


def state_file(name: str) -> Path:
    return state_folder() / f"{name}.json"


def parse_tunnel(values: Any) -> Tunnel:
    """Build a Tunnel from JSON; TypeError or KeyError if the data does not fit."""
    return Tunnel(**{**values, "listeners": tuple(Listener(**each) for each in values["listeners"])})


async def _request_state(name: str, request_name: str) -> Tunnel | None:
    """Ask a tunnel's process for its state, or to "stop"; None if it is gone. Unreachable if it does not answer."""
    path = await asyncio.to_thread(socket_path, name)
    try:
        async with asyncio.timeout(TUNNEL_ANSWER_TIMEOUT):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(request_name.encode() + b"\n")
            line = await reader.readline()
        async with asyncio.timeout(CLOSE_TIMEOUT):
            await reader.read()
        writer.close()
        return parse_tunnel(json.loads(line))
    except TimeoutError as error:
        hint = "Try again, or kill the process."
        raise Unreachable(f"The process of tunnel {name} does not answer.", hint) from error
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _read_saved_states() -> dict[str, Tunnel]:
    found = {}
    for path in sorted(state_folder().glob("*.json"), key=lambda each: each.stem):
        try:
            found[path.stem] = parse_tunnel(read_json(path))
        except (TypeError, KeyError):
            continue  # ports.json, or of another version
    return found


async def list_tunnels() -> tuple[Tunnel, ...]:
    """All tunnels of this user by name; ended ones stay listed for a day."""
    return tuple(
        [
            each
            for name, last in (await asyncio.to_thread(_read_saved_states)).items()
            if (each := await _current_state(name, last))
        ]
    )


async def _current_state(name: str, last_state: Tunnel) -> Tunnel | None:
    try:
        alive = await _request_state(name, "state")
    except Unreachable as error:
        return replace(last_state, state="lost", words=error.message)
    if alive:
        return alive
    await asyncio.to_thread(socket_path(name).unlink, missing_ok=True)
    if last_state.state != "ended":
        last_state = replace(
            last_state, state="ended", words="Its process ended without an error message.", last_end_at=time.time()
        )
        await asyncio.to_thread(write_json, state_file(name), asdict(last_state))
    if time.time() - max(last_state.last_end_at, last_state.since) > ENDED_SHOWN_SECONDS:
        await asyncio.to_thread(state_file(name).unlink, missing_ok=True)
        return None
    return last_state


async def stop_tunnel(name: str) -> Tunnel:
    """Stop a tunnel, or remove an ended one; returns its last state. Raises NotFound, or Unreachable if it hangs."""
    known = await asyncio.to_thread(_read_saved_states)
    if name not in known:
        there = f"There are: {', '.join(known)}." if known else "There are none."
        raise NotFound(f"There is no tunnel {name}.", there)
    was = await _request_state(name, "stop")
    await asyncio.to_thread(state_file(name).unlink, missing_ok=True)
    return was or known[name]


async def find_free_name(wanted_name: str) -> str:
    """The wanted tunnel name, with a number appended if another tunnel has it."""
    known = await asyncio.to_thread(_read_saved_states)
    name, number = wanted_name, 1
    while name in known and await _request_state(name, "state"):
        number += 1
        name = f"{wanted_name}-{number}"
    return name
