"""Images that were built from this machine, so that the launch form offers them without asking Google."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from console.folders import make_private
from console.models.build import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from console.models.build import Build

MOST = 50


@dataclass(frozen=True, slots=True)
class Made:
    """An image, and the build that makes it."""

    image: str
    build: str
    project: str
    location: str
    status: str
    moment: float
    """Of the last change of its status, as far as it is known; seconds since the epoch."""

    @property
    def under_way(self) -> bool:
        """Whether it is not known yet what became of it."""
        return self.status in RUNNING


def read(path: Path) -> tuple[Made, ...]:
    """The latest first; none if there is no file, or it is no longer what was written."""
    try:
        return tuple(Made(**each) for each in json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return ()


def note(path: Path, builds: list[Build]) -> tuple[Made, ...]:
    """Write down what builds make, and what became of those that stand there already; what the file holds then.

    Where the file cannot be written, the images are found in the registry only.
    """
    with suppress(OSError), _alone(path):
        known = {(each.build, each.image): each for each in read(path)}
        before = dict(known)
        for build in builds:
            for image in build.images:
                key = build.id, image
                moment = build.ended or build.created
                known[key] = (
                    replace(known[key], status=build.status, moment=moment)
                    if key in known
                    else Made(image, build.id, build.project, build.location, build.status, moment)
                )
        if known != before:
            _write(path, sorted(known.values(), key=lambda each: -each.moment)[:MOST])
    return read(path)


def forget(path: Path, build: str) -> None:
    """A build that Google does not know."""
    with suppress(OSError), _alone(path):
        _write(path, [each for each in read(path) if each.build != build])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One writer at a time, of all threads and consoles."""
    make_private(path.parent)
    with path.with_suffix(".lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # let go when the file is closed
        yield


def _write(path: Path, found: list[Made]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps([asdict(each) for each in found], indent=1))
    new.replace(path)
