"""Results from jobs' logs that stay valid, cached on disk, so that a command that reads once starts with them.

Another version of a4, or other log formats in the settings, start with an empty cache; a cache file that cannot be read
or written only costs time.
"""

from __future__ import annotations

from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, field, msgpack

from console.decoding import DECODING_ERRORS
from console.folders import atomic_write, make_private, read_own_file
from console.metrics.job_measures import known_layouts
from console.metrics.job_progress import JobProgress
from console.settings_file import current_config, own_log_formats
from trainlog import MAX_LAYOUTS, LineLayout, RunPosition, compile_stored_pattern

MAX_CACHED_JOBS = 200  # of which each is kept, the newest
MAX_CACHE_FILE_BYTES = 4 << 20  # bytes of a file that is read at all


class EndedJob(Struct, array_like=True, frozen=True):
    of: bytes  # the pods, and what else its progress depends on
    progress: JobProgress | None  # None: its log shows none


class _CacheContents(Struct, array_like=True):
    of: str = ""  # what reads logs here, see `_parsers_identity`
    layouts: Annotated[list[LineLayout], Meta(max_length=MAX_LAYOUTS)] = field(default_factory=list)
    ended: dict[str, EndedJob] = field(default_factory=dict)
    diverged: dict[str, RunPosition] = field(default_factory=dict)
    tested: dict[str, float] = field(default_factory=dict)
    printing: dict[str, int] = field(default_factory=dict)


_BY_JOB = ("ended", "diverged", "tested", "printing")


class LogResultCache:
    """A cache file: results from jobs' logs by JobSet uid, and the line layouts of known programs."""

    def __init__(self, path: Path | None = None) -> None:
        """`path`: the cache file; None keeps the results in memory only."""
        self._path = path
        self._loaded, self._has_changed = path is None, False
        self._layouts: list[LineLayout] = []  # those on disk
        self._contents = _CacheContents()

    def ended(self, uid: str, of: bytes) -> EndedJob | None:
        """The stored result of an ended job; None means that its log has to be read."""
        found = self._contents.ended.get(uid)
        return found if found is not None and found.of == of else None

    def diverged(self, uid: str, position: RunPosition) -> RunPosition | None:
        """The stored position at which a job's loss became NaN; None if unknown, or if a later loss was valid."""
        found, by = self._contents.diverged.get(uid), position.nan_by
        return found if found is not None and found.step is not None and by is not None and found.step >= by else None

    def tested(self, uid: str) -> float:
        """The print time (epoch seconds) of the last line of a job's newest stored NCCL test; 0.0 if unknown."""
        return self._contents.tested.get(uid, 0.0)

    def printing(self, uid: str) -> int | None:
        """The number of the pod that printed the progress of a job; None if unknown."""
        return self._contents.printing.get(uid)

    def keep(self, uid: str, **results: Any) -> None:
        """Store values for a job; each keyword is the name of the method that returns the value."""
        for name, value in results.items():
            of = getattr(self._contents, name)
            if of.get(uid) != value:
                of[uid], self._has_changed = value, True

    @property
    def has_news(self) -> bool:
        """Whether some value is not in the file yet."""
        return self._has_changed or known_layouts(own_log_formats()) != self._layouts

    def load(self) -> None:
        """Load the stored file once. Blocking."""
        if self._loaded:
            return
        self._loaded, found = True, self._read()
        for name in _BY_JOB:
            setattr(self._contents, name, getattr(found, name) | getattr(self._contents, name))
        shared = known_layouts(own_log_formats())
        shared += found.layouts[: max(0, len(found.layouts) - len(shared))]
        self._layouts = found.layouts

    def store(self) -> None:
        """Write new values to the file, merged with those of other consoles. Blocking."""
        if self._path is None or not self.has_news:
            return
        layouts, others = known_layouts(own_log_formats()), self._read()
        self._has_changed, self._layouts = False, [*layouts]
        self._contents.of, self._contents.layouts = _parsers_identity(), layouts
        for name in _BY_JOB:
            every = getattr(others, name) | getattr(self._contents, name)
            setattr(self._contents, name, dict([*every.items()][-MAX_CACHED_JOBS:]))
        with suppress(OSError):  # then the logs are read again
            make_private(self._path.parent)
            atomic_write(self._path, msgpack.encode(self._contents, enc_hook=lambda pattern: pattern.pattern))

    def _read(self) -> _CacheContents:
        with suppress(OSError, *DECODING_ERRORS):  # then the logs are read again
            data = read_own_file(self._path, MAX_CACHE_FILE_BYTES) if self._path is not None else b""
            found = msgpack.decode(data, type=_CacheContents, dec_hook=lambda _, stored: compile_stored_pattern(stored))
            if found.of == _parsers_identity() and all(each.can_be_learned() for each in found.layouts):
                return found
        return _CacheContents()


def _parsers_identity() -> str:
    """The identity of the parsers: modification times of their folders, and the log formats in the settings."""
    spec, metrics = find_spec("trainlog"), Path(__file__).parent
    logs = Path(spec.origin if spec and spec.origin else "").parent
    folders = logs, logs / "nccl", logs / "training", logs / "training" / "formats", metrics, metrics.parent / "logs"
    return f"{[folder.stat().st_mtime_ns for folder in folders]} {metrics} {current_config().config.formats}"
