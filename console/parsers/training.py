"""Output of training programs, read while it is printed: bytes in any pieces, runs and their steps out.

Cost: searching for the words below takes half a nanosecond a byte; a line that holds one costs about 1 microsecond to
set aside and 5 to 15 to read. A log of nothing but Megatron's lines of 400 bytes is thereby the dearest.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from console.parsers import training_dicts as dicts
from console.parsers.blocks import Blocks, spans_with
from console.parsers.nccl_line import ANSI
from console.parsers.puzzle import Puzzle
from console.parsers.training_bar import close_in_time, drawn_bar, skipped_since
from console.parsers.training_half import half_megatron, half_step
from console.parsers.training_known import Epochs, known, reporter
from console.parsers.training_learned import Learned
from console.parsers.training_lines import verl, verl_start
from console.parsers.training_megatron import megatron, step_time
from console.parsers.training_rows import rows, unlike
from console.parsers.training_run import BESIDE, Growing, beside, merged
from console.parsers.training_values import Found, count, finite_total
from console.parsers.words import Words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from console.models.training import Bar, Step, TrainingRun
    from console.models.unreadable import Unreadable

LONGEST = 1 << 14
"""Bytes of a line that are kept; the rest of a longer one is dropped."""
WORDS = Words(b"loss", b"Loss", b"%|", b"step", b"Step Time")
"""A line without any of these says nothing of training."""
_JOINED = 60
"""Lines of which one report may consist."""
_PLANNED = re.compile(r"Total optimization steps = ([\d,]{1,20})")
_CONTINUED = re.compile(r"""\s*['"}]""")
_METRIC = re.compile(r"\s*(?:\([^)]{0,120}\)\s*)?- [\w/@.+()-]{1,120}:")
_FAMILIES = {"hf": "dict", "trl": "dict", "llama-factory": "dict", "megatron-bridge": "megatron"}
_BY_EPOCH = frozenset({"minibatches", "key-value"})
"""Formats that may count steps from the beginning of each epoch."""


class TrainingParser:
    """Reads the log of one training job, a piece at a time."""

    def __init__(self) -> None:
        self._blocks = Blocks(LONGEST, returns=True)
        self._runs: list[Growing] = []
        self._open: dict[str, Growing] = {}
        self._changed: list[Growing] = []
        self._learned = Learned()
        self._bar: Bar | None = None
        self._planned: int | None = None
        self._skipped = 0.0
        self._epochs = Epochs()
        self._timed: Step | None = None
        self._parts: list[str] = []
        """Lines of a dictionary that is not closed yet."""
        self._metrics: tuple[int, list[str]] | None = None
        """Step of verl and its lines, while more may come."""
        self._puzzle = Puzzle()

    @property
    def runs(self) -> tuple[TrainingRun, ...]:
        """All runs so far, in the order they began."""
        return tuple(each.run() for each in self._runs)

    @property
    def bar(self) -> Bar | None:
        """The last progress bar that may be that of training."""
        return self._bar

    @property
    def growing(self) -> tuple[Growing, ...]:
        """The same runs as they are kept, for whoever cannot afford to copy their steps."""
        return tuple(self._runs)

    @property
    def unreadable(self) -> Unreadable | None:
        """Lines that look like steps and cannot be read; None if there are none."""
        return self._puzzle.told

    def feed(self, data: bytes) -> list[TrainingRun]:
        """Reads on; the runs that changed by it. A line counts once its end has come."""
        self._read_on(data, None)
        return self._told()

    def read(self, data: bytes, line: int | None = None) -> bool:
        """Reads on like `feed`; only whether any run changed, as copying long ones costs time.

        `line` is the number of the first line of `data` in its log, where lines before it were left out.
        """
        self._read_on(data, line)
        changed = bool(self._changed)
        self._changed = []
        return changed

    def _read_on(self, data: bytes, line: int | None) -> None:
        block, puzzle = self._blocks.add(data), self._puzzle
        puzzle.begin(self._blocks.raw, line)
        for at, piece in unlike(block, self._rows):
            for start, end in spans_with(WORDS, piece, self.waiting):
                puzzle.at(at + start)
                self._line(piece[start : min(end, start + LONGEST)])
        puzzle.end()

    def _rows(self, piece: bytes) -> int:
        """Take the lines at the beginning of that piece which are all like the one before; how many bytes."""
        if self._learned.layout is None or self.waiting():
            return 0
        taken, run = rows(piece, self._learned.layout, self._epochs, list(self._open.values()))
        if run is not None:
            self._learned.fits()
            self._puzzle.read()
            self._changed.append(run)
        return taken

    def close(self) -> list[TrainingRun]:
        """Reads what is left without a line end; the runs that changed by it."""
        rest = self._blocks.end()
        if rest:
            self._line(rest)
        self._flush()
        run = self._open.get("megatron")
        if self._timed is not None and (run is None or run.number is None):
            self._take(Found("megatron-bridge", self._timed), "")
        self._timed = None
        return self._told()

    def _told(self) -> list[TrainingRun]:
        changed, self._changed = self._changed, []
        return [each.run() for each in self._runs if each in changed]

    def waiting(self) -> bool:
        """Whether a report has begun of which more lines may come."""
        return bool(self._parts) or self._metrics is not None

    # lines

    def _line(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace")
        if "\x1b" in text:
            text = ANSI.sub("", text)
        if self.waiting() and self._continues(text):
            return
        if "iteration" in text and "|" in text and (read := megatron(text)):
            for each in read:
                self._take(self._with_time(each), reporter(text, each.at))
            return
        if "%|" in text and ("it/s" in text or "s/it" in text):
            self._see(text)
        if "oss" in text or "tep" in text:
            self._report(text)

    def _report(self, text: str) -> None:
        if (start := dicts.opens(text)) is not None:
            self._open_dictionary(text, start)
        elif dicts.ends_run(text):
            self._end()
        elif (step := verl_start(text) if " - " in text or text.rstrip()[-1:].isdigit() else None) is not None:
            self._metrics = (step, [text])
        else:
            self._by_itself(text)

    def _by_itself(self, text: str) -> None:
        known_to = None
        for known_to in self._read(text):
            self._take(known_to, reporter(text, known_to.at))
        if known_to is None and (half_megatron(text) or (half_step(text) and self._is_known())):
            self._puzzle.unread(text)

    def _is_known(self) -> bool:
        """Whether a program whose lines are known is at work."""
        return any(run.known for run in self._open.values())

    def _read(self, text: str) -> Iterator[Found]:
        """What a line says by itself."""
        if found := known(text):
            yield found
        elif (timed := step_time(text) if "Step Time" in text else None) is not None:
            self._time(timed)
        elif planned := _PLANNED.search(text) if "optimization" in text else None:
            self._planned = finite_total(count(planned.group(1).replace(",", "")))
        elif "loss" in text or "Loss" in text:
            yield from self._learned.read(text)

    def _continues(self, text: str) -> bool:
        """Whether the line belongs to a report that is not complete."""
        if self._parts and _CONTINUED.match(text) and len(self._parts) < _JOINED:
            self._parts.append(text)
            if "}" in text:
                self._flush()
            return True
        if self._metrics and _METRIC.match(text) and len(self._metrics[1]) < 10 * _JOINED:
            self._metrics[1].append(text)
            return True
        self._flush()
        return False

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        metrics, self._metrics = self._metrics, None
        if parts and (found := dicts.dictionary(" ".join(parts), 0)):
            self._take(found, "")
        if metrics and (found := verl(metrics[0], " ".join(metrics[1]))):
            self._take(found, "")

    def _open_dictionary(self, text: str, start: int) -> None:
        if "}" not in text[start:] and "..." not in text[start:]:
            self._parts = [text[start:]]
        elif found := dicts.dictionary(text, start):
            self._take(found, reporter(text, start))
        else:
            self._puzzle.unread(text)

    # beside the steps

    def _see(self, text: str) -> None:
        """A progress bar; those of downloads and the like have a name before them."""
        if bar := drawn_bar(text):
            run = self._open.get("dict")
            if bar.total != (self._planned or (run.total if run and not run.finished else None) or bar.total):
                return
            self._bar = bar
            if run and run.drawn(bar):
                self._changed.append(run)

    def _time(self, timed: Step) -> None:
        """Rank 0 of Megatron-Bridge tells time and speed, the last rank tells the rest, before or after it."""
        run = self._open.get("megatron")
        if run is None or run.number is None:
            if self._timed is not None:
                self._take(Found("megatron-bridge", self._timed), "")
            self._timed = timed
        elif run.steps and close_in_time(run.steps[-1], timed) and run.steps[-1].tflops_per_gpu is None:
            run.steps[-1] = merged(run.steps[-1], timed)
            run.format = "megatron-bridge"
            self._changed.append(run)
        else:
            self._timed = timed

    def _with_time(self, found: Found) -> Found:
        timed, self._timed = self._timed, None
        if timed is not None and close_in_time(found.step, timed):
            found.format, found.step = "megatron-bridge", merged(found.step, timed)
        return found

    def _end(self) -> None:
        run = self._open.get("dict") or self._open.get("ms-swift")
        if run:
            run.finished, self._bar = True, None
            self._changed.append(run)

    # steps

    def _take(self, found: Found, label: str) -> None:
        if found.format == "deepspeed":
            found.step, self._skipped = skipped_since(found.step, self._skipped)
            label = f"deepspeed {label}"
        elif found.format in _BY_EPOCH:
            found.step = self._epochs.through(found.step, label)
        self._puzzle.read()
        run = self._run_for(found, label)
        if found.format != run.format and run.format in {"hf", "megatron"} and found.format not in BESIDE:
            run.format = found.format
        if found.step.step is None and _FAMILIES.get(found.format) == "dict":
            run.add_unnumbered(found.step, self._bar)
        else:
            run.add(found.step, label)
        self._changed.append(run)

    def _run_for(self, found: Found, label: str) -> Growing:
        family, number = _FAMILIES.get(found.format, found.format), found.step.step
        if found.format in BESIDE and number is not None:
            for run in self._open.values():
                if not run.finished and run.near(number):
                    return run
        run_ = self._open.get(family) or beside(self._open, found, number)
        if run_ is None or run_.finished or run_.begins_again(number, label):
            run_ = Growing(found.format)
            self._runs.append(run_)
        self._open[family] = run_
        return run_


def parse_training(data: bytes) -> tuple[TrainingRun, ...]:
    """The runs in a whole log."""
    parser = TrainingParser()
    parser.feed(data)
    parser.close()
    return parser.runs
