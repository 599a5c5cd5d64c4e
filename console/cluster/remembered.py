"""Where the chosen context stood in the kubeconfig last time, so that `a4 proxy` need not read YAML again.

A file in the user's cache folder (0600). Secrets are not copied: it says at which bytes of the kubeconfig they stand,
and is believed only while every file is, by size and times, the one that was read.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from console.cluster.target import Cluster, Secret, Target, User

_HIDDEN = ("client_certificate_data", "client_key_data", "token", "password")
_VERSION = 1


def target(path: Path | None, context: str) -> Target:
    """The context of that name (empty: the current one) of the files `kubeconfig.load` would read.

    Blocking. Raises BadKubeconfig.
    """
    files = _files(path)
    found = _recall(files, context) if files else None
    if found is None:
        from console.cluster.kubeconfig import load

        found = load(path).target(context)
        if files:
            _keep(files, context, found)
    return found


def _files(path: Path | None) -> list[Path]:
    """Those that there are; none for the account of a pod."""
    if path:
        return [path.expanduser()]
    listed = [Path(each).expanduser() for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    return [each for each in listed or [Path.home() / ".kube" / "config"] if each.exists()]


def _signature(files: list[Path], context: str) -> list[Any]:
    stats = [(each, each.stat()) for each in files]
    return [_VERSION, context, *([os.path.abspath(each), stat.st_size, stat.st_mtime_ns, stat.st_ino]  # noqa: PTH100 - resolving links reads the disk
                                 for each, stat in stats)]  # fmt: skip


def _note(files: list[Path], context: str) -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = zlib.crc32("\0".join([context, *map(os.path.abspath, files)]).encode())
    return Path(folder) / "a4" / f"context-{name:08x}.json"


def _recall(files: list[Path], context: str) -> Target | None:
    try:
        held = json.loads(_note(files, context).read_bytes())
        if held["signature"] != _signature(files, context):
            return None
        user = User(**held["user"])
        for name, (number, start, length) in held["hidden"].items():
            with files[number].open("rb") as file:
                file.seek(start)
                setattr(user, name, Secret(file.read(length).decode("ascii")))
        return Target(held["context"], held["user_name"], held["namespace"], Cluster(**held["cluster"]), user)
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None  # there is none, or it is of another version: the kubeconfig is read instead


def _keep(files: list[Path], context: str, found: Target) -> None:
    """Remember it for the next time, if that can be done without copying a secret."""
    if found.user.auth_provider or (found.user.exec or {}).get("env"):
        return
    try:
        signature = _signature(files, context)
        texts = [each.read_bytes() for each in files]
        user, hidden = asdict(found.user), {}
        for name in _HIDDEN:
            value = user.pop(name)
            if value:
                hidden[name] = _where(texts, str(value).encode())
        if None in hidden.values():
            return
        held = {
            "signature": signature, "context": found.context, "user_name": found.user_name,
            "namespace": found.namespace, "cluster": {**asdict(found.cluster), "practice_folder": None},
            "user": user, "hidden": hidden,
        }  # fmt: skip
        _write(_note(files, context), json.dumps(held).encode())
    except OSError:
        """A read-only home: the kubeconfig is read each time."""


def _where(texts: list[bytes], value: bytes) -> tuple[int, int, int] | None:
    """At which bytes of which file a value stands; None if it is written in another form there."""
    if not value.isascii():
        return None
    found = ((number, text.find(value), len(value)) for number, text in enumerate(texts))
    return next((each for each in found if each[1] >= 0), None)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    new.replace(path)
