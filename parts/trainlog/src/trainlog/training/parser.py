"""Parses the output of training programs while it is printed; takes bytes in pieces of any size.

Cost: searching for the words below takes a tenth of a nanosecond a byte; a line with one of them costs about a
microsecond to set aside and 5 to 15 to parse. Similar lines, as those of steps are, are parsed a whole piece at once,
at half a microsecond to two a line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import filterfalse, groupby
from typing import Literal

from trainlog.lines import (
    ANSI_CODE,
    LineBlocks,
    UnparsedCounter,
    UnparsedLines,
    WordSearch,
    iter_spans,
    strip_terminal_codes,
)
from trainlog.regex import lazy_pattern
from trainlog.training.formats import dictionaries as dicts
from trainlog.training.formats.dictionaries import MultilineReport, NotebookTable, open_report
from trainlog.training.formats.known_programs import (
    GATE,
    PLAIN_BAR,
    begins_next_verl_step,
    find_verl_start,
    iter_drawn_bars,
    make_plain_bar,
    parse_keras,
    parse_known_program,
    parse_verl,
)
from trainlog.training.formats.megatron import parse_bars, parse_megatron, parse_step_time
from trainlog.training.formats.unknown_programs import (
    LearnedFormat,
    OwnFormat,
    StepLineFinder,
    parse_in_configured_formats,
)
from trainlog.training.line_layout import LineLayout, find_similar, learn_layout
from trainlog.training.run_reader import (
    EPOCH_FORMATS,
    SECOND_FORMATS,
    EpochNumbering,
    RunReader,
    close_in_time,
    count_skipped,
    find_library_run,
    merge_neighbours,
    merge_reports,
    reporter_label,
    split_reporter,
)
from trainlog.training.steps import PackedSteps, ProgressBar, Step
from trainlog.training.values import StepReport, finite_total, parse_count

_ITERATION_WORD = lazy_pattern(r"\biteration\s+\d")
_STEP = lazy_pattern(r"(?i)\b(?:global_?)?(?:step|iter(?:ation)?)\b[\s:=]{0,4}\d")
_OTHER_DATA = lazy_pattern(r"(?i)\b(?:val|valid|validation|eval|evaluation|test|best|save|saved|saving|checkpoint)")
"""Words of lines that report no training step: evaluation, best values, checkpoints."""
_MIN_PIECE_BYTES, _MAX_PIECE_BYTES = 1 << 13, 1 << 16  # that are tried at once: more where those before said nothing
_MIN_SIMILAR_LINES = 4  # similar lines that are worth columns
MAX_LAYOUTS = 16  # that are known at once
MAX_LINE_BYTES = 1 << 14  # bytes of a line that are kept; the rest of a longer one is dropped
_ALL_WORDS = (
    *GATE,
    *(word for word in (*dicts.REPORT_HEADS, "Step Time", "Epoch ") if not any(map(word.__contains__, GATE))),
)
STEP_SEARCH = WordSearch(*(word.encode() for word in _ALL_WORDS))
"""Words of which every line about training has one."""
_LOSS = lazy_pattern(r"(?i)loss(?:es)?[\"']?\s{0,40}[:=|]?\s{0,40}[-+]?\d{1,9}\.\d|\d\.\d{1,20}\s{0,9}\w{0,20}loss\b")
_MIN_LOSS_LINES = 3  # lines of an unknown form that name a loss: fewer may be prose
_REPORT_WORDS = tuple(word for word in _ALL_WORDS if word != "%|")
_LAYOUT_TRIALS = frozenset({2, *(8 * 4**power for power in range(12))})  # lines until the layout is looked for again
_MAX_REPORT_LINES = 60  # lines of which one report may consist
_TOTAL_STEPS_LINE = lazy_pattern(r"Total optimization steps = ([\d,]{1,20})")
_DICTIONARY_REST = lazy_pattern(r"""\s*['"}]""")
_EPOCH = lazy_pattern(r"\s*Epoch (\d{1,9})/(\d{1,9})\s*")
_LAST_STEP_OF_EPOCH = lazy_pattern(r"\b(\d{1,15})/\1 ")  # at the last step of it
_VERL_METRIC = lazy_pattern(r"\s*(?:\([^)]{0,120}\)\s*)?(?:\S{1,120}:\S{1,40} )?(- [\w/@.+()-]{1,120}:)")
"""The beginning of a line of verl's metrics; a terminal may have broken it within the first metric."""
_NAMED_FIGURE = lazy_pattern(r"\s+[\w ]{1,60}: \S{1,60},?\s*$")
_FORMAT_FAMILIES = {"hf": "dict", "trl": "dict", "llama-factory": "dict", "megatron-bridge": "megatron"}


class TrainingParser:
    """Parses the log of one training job, fed in pieces."""

    def __init__(
        self,
        formats: tuple[OwnFormat, ...] = (),
        make_run: Callable[[str], RunReader] = RunReader,
        is_short: bool = False,
        layouts: list[LineLayout] | None = None,
    ) -> None:
        """`layouts` were learned from earlier logs; `is_short`: the log is too short to learn new ones."""
        self._line_blocks = LineBlocks(MAX_LINE_BYTES, returns=True)
        self._is_short, self._reach = is_short, _MIN_PIECE_BYTES
        self._own_formats, self._make_run = formats, make_run
        self._line_finder = StepLineFinder(STEP_SEARCH, self._own_formats) if self._own_formats else STEP_SEARCH
        self._runs: list[RunReader] = []
        self._open: dict[str, RunReader] = {}
        self._has_changed = False
        self._learned = LearnedFormat()
        self._bar: ProgressBar | None = None
        self._planned: int | None = None
        self._skipped = 0.0
        self._epochs = EpochNumbering()
        self._timed: Step | None = None
        self._of_keras: dict[str, tuple[int, int]] = {}  # of each process: the epoch that has begun, and how many
        self._parts: list[str] = []  # lines of a dictionary that is not closed yet
        self._metrics: tuple[int, list[str]] | None = None  # step of verl and its lines, while more may come
        self._block: MultilineReport | NotebookTable | None = None  # a report or table of which more lines may come
        self._wrapped: list[str] = []  # a line of pairs that goes on in the next ones
        self._reporter, self._others = "", 0  # who prints what is incomplete, and lines of others since
        self._puzzle = UnparsedCounter()
        self._sure = False  # whether what could not be parsed is in a form that is known
        self._rank = ""  # who printed the line, where that is known without its labels
        self._layouts = [] if layouts is None else [*layouts]  # what the lines look like, the last learned first
        self._shared = layouts
        self._alone, self._unlike, self._looked = 0, 0, 0  # since the layout fitted, and all; look-ups

    @property
    def runs(self) -> tuple[RunReader, ...]:
        """All runs so far, in the order of their beginning."""
        return tuple(self._runs)

    @property
    def unreadable(self) -> UnparsedLines | None:
        """Lines like steps (without any parsed step: lines that name losses) that could not be parsed; None if none."""
        unparsed = self._puzzle.unparsed_lines
        return unparsed if unparsed is None or self._sure or unparsed.lines >= _MIN_LOSS_LINES else None

    def feed(self, data: bytes, line: int | None = None) -> bool:
        """Parse more bytes, up to the last line end; returns whether any run changed."""
        block, at = self._line_blocks.feed(data), 0
        if b"^" in block and b"^M" in block:  # carriage returns as a person copied them
            block = block.replace(b"^M", b" \n")
        self._puzzle.begin_block(self._line_blocks.raw, line)
        while at < len(block):
            end = block.find(b"\n", at + self._reach) + 1 or len(block)
            self._parse_piece(block[at:end], at)
            at = end
        self._puzzle.end_block()
        return self._take_changed()

    def read_line(self, text: str, number: int, rank: int | None = None) -> bool:
        """Parse a line that `rank` printed (None: the rank in its labels); returns whether a training run changed."""
        self._rank = "" if rank is None else str(rank)
        self._puzzle.begin_block(b"", number)
        for part in text.replace("^M", "\r").split("\r") if "\r" in text or "^M" in text else (text,):  # bars
            self._parse_text(
                ANSI_CODE.sub("", part[:MAX_LINE_BYTES]) if "\x1b" in part else part[:MAX_LINE_BYTES], None
            )
        self._rank = ""
        return self._take_changed()

    def _parse_piece(self, piece: bytes, offset: int) -> None:
        """Parse whole lines: those of known layouts together, the others one by one."""
        is_open = self._timed is not None or self.has_open_report()
        layouts = [] if is_open else self._layouts
        rows = layouts[0].match_all(piece) if layouts and not self._follows_bars(layouts[0]) else []
        if rows and (steps := layouts[0].parse_rows(rows)):
            self._add_similar(layouts[0], steps, 0, len(rows), piece[piece.rfind(b"\n", 0, -1) + 1 :])
            self._reach = min(2 * self._reach, _MAX_PIECE_BYTES)
            return
        found, at = self._line_finder.find_lines(piece), 0
        self._reach = _MIN_PIECE_BYTES if found else min(2 * self._reach, _MAX_PIECE_BYTES)
        starts = sorted(found)
        bars = {}
        if b"%|" in piece and not self._own_formats:
            bars = {start: bar for start in starts if (bar := PLAIN_BAR.match(piece, start))}
        similar = find_similar(layouts, piece, filterfalse(bars.__contains__, starts)) if layouts else {}
        if similar and (last := next(reversed(similar.values()))[0]) is not layouts[0]:
            self._layouts = [last, *(each for each in layouts if each is not last)]
        kinds: dict[int, LineLayout | Literal["bar"]] = {start: layout for start, (layout, _, _) in similar.items()}
        kinds |= dict.fromkeys(bars, "bar")
        unpacked: dict[LineLayout, list[Step]] = {}
        for layout, group in groupby(starts, kinds.get):
            lines = [*group]
            end = found[lines[-1]] + 1
            if layout is None or is_open or (layout != "bar" and self._follows_bars(layout)):
                is_open = self._parse_lines(piece, {start: found[start] for start in lines}, at, end, offset)
            elif layout == "bar":
                self._take_bars([bars[start] for start in lines])
            elif len(lines) < _MIN_SIMILAR_LINES and not layout.draws_bar:
                _, steps, first = similar[lines[0]]
                if layout not in unpacked:
                    unpacked[layout] = [*steps]
                for step in unpacked[layout][first : first + len(lines)]:
                    self._add_report(StepReport(layout.format, step), layout.label)
            else:
                _, steps, first = similar[lines[0]]
                self._add_similar(layout, steps, first, first + len(lines), piece[lines[-1] : end])
            at = end
        self._parse_lines(piece, {}, at, len(piece), offset)

    def _parse_lines(self, piece: bytes, found: dict[int, int], at: int, stop: int, offset: int) -> bool:
        """Parse the lines at these offsets, and all up to `stop` while a report is open; returns whether one is."""
        for start, end in iter_spans(found, piece, self.has_open_report, at, stop):
            self._puzzle.set_offset(offset + start)
            self._parse_raw_line(piece[start : min(end, start + MAX_LINE_BYTES)])
        return self._timed is not None or self.has_open_report()

    def _follows_bars(self, layout: LineLayout) -> bool:
        """Whether each bar in lines of this layout counts, since the run's steps are numbered by bars."""
        return layout.draws_bar and ("dict" in self._open or self._planned is not None)

    def _add_similar(self, layout: LineLayout, steps: PackedSteps, at: int, stop: int, last: bytes) -> None:
        """Add steps of similar lines: together as long as they certainly follow the known steps, else one by one."""
        add, label = self._add_step, layout.label
        if layout.format == "deepspeed" or not self._epochs.renumber(steps, at, stop, layout.format, label):
            add = self._add_report
        several = len(self._open) == 1 and next(iter(self._open.values())).several
        merged = merge_neighbours(steps, at, stop) if several and layout.format != "each-rank" else None
        if merged:
            steps, at, stop = merged, 0, len(merged)
        while at < stop:
            run = next(iter(self._open.values())) if len(self._open) == 1 and add == self._add_step else None
            taken = 0
            if run is not None and stop - at >= _MIN_SIMILAR_LINES and not run.finished and run.format == layout.format:
                taken = run.count_following(steps, at, stop, label, self._bar)
            if run is not None and taken >= _MIN_SIMILAR_LINES:
                run.add_following(steps.slice(at, at + taken), label, self._bar)
                self._alone = 0
                self._puzzle.add_parsed()
                self._has_changed = True
            else:
                taken = min(taken + 1, stop - at)
                for each in range(at, at + taken):
                    add(StepReport(layout.format, steps[each]), label)
            at += taken
        if merged and (own := self._open.get(_FORMAT_FAMILIES.get(layout.format, layout.format))) is not None:
            own.several = True  # None: their steps went beside those of another format
        if layout.draws_bar:
            self._take_progress_bar(strip_terminal_codes(last))

    def close(self) -> bool:
        """Parse an unterminated last line; returns whether any run changed."""
        if rest := self._line_blocks.flush():
            self._parse_raw_line(rest)
        self._close_open_report()
        run = self._open.get("megatron")
        if self._timed is not None and (run is None or run.number is None):
            self._add_report(StepReport("megatron-bridge", self._timed), "")
        self._timed = None
        confirmed = [run.confirm_number() for run in self._open.values()]
        return self._take_changed() or any(confirmed)

    def _take_changed(self) -> bool:
        changed, self._has_changed = self._has_changed, False
        return changed

    def may_be_relevant(self, text: str) -> bool:
        """Whether a line may say anything of training, by itself or after the lines before it."""
        return (
            STEP_SEARCH.occurs_in(text.encode(errors="replace"))
            or self.has_open_report()
            or parse_in_configured_formats(self._own_formats, text) is not None
        )

    def has_open_report(self) -> bool:
        """Whether a report of several lines is incomplete."""
        return bool(self._parts or self._metrics or self._block or self._wrapped)

    def _parse_raw_line(self, raw_line: bytes) -> None:
        self._parse_text(strip_terminal_codes(raw_line), raw_line)

    def _parse_text(self, text: str, raw_line: bytes | None) -> None:
        """Parse a line; `raw_line`: its bytes, if similar lines may follow that can be parsed together."""
        if self._own_formats and (own := parse_in_configured_formats(self._own_formats, text)):
            self._add_report(own, self._reporter_of(text, own.at))
            return
        if self.has_open_report() and self._continues_report(text):
            return
        if "iteration" in text and "|" in text and (read := parse_megatron(text)):
            for each in read:
                timed, self._timed = self._timed, None
                if timed is not None and close_in_time(each.step, timed):
                    each.format, each.step = "megatron-bridge", merge_reports(each.step, timed)
                self._add_report(each, self._reporter_of(text, each.at))
            self._find_layout(raw_line, parse_megatron)
            return
        if "%|" in text:
            self._take_progress_bar(text)
        if any(map(text.__contains__, _REPORT_WORDS)):
            self._parse_report(text, raw_line)
        elif "%|" in text and "=" in text:
            self._parse_single_line(text, raw_line)

    def _parse_report(self, text: str, raw_line: bytes | None) -> None:
        if (start := dicts.find_dictionary_start(text)) is not None:
            self._open_dictionary(text, start, raw_line)
        elif dicts.ends_run(text):
            run = next((self._open[family] for family in ("dict", "ms-swift") if family in self._open), None)
            if run is not None:
                run.confirm_number()
                run.finished, self._bar = True, None
                self._has_changed = True
        elif (step := find_verl_start(text) if " - " in text or text.rstrip()[-1:].isdigit() else None) is not None:
            self._begin_report(text)
            self._metrics = (step, [text])
        elif (block := open_report(text)) is not None:
            self._begin_report(text)
            self._block = block
        else:
            self._parse_single_line(text, raw_line)

    def _parse_single_line(self, text: str, raw: bytes | None) -> None:
        known_to = None
        for known_to in self._iter_reports(text):
            self._add_report(known_to, self._reporter_of(text, known_to.at))
        if known_to is not None:
            if known_to.format == "key-value":
                self._find_layout(raw, self._learned.parse_known_line)
            elif known_to.format != "keras":
                self._find_layout(raw, lambda line: parse_bars(line) or [*filter(None, [parse_known_program(line)])])
        elif "loss" in text and text.rstrip().endswith(","):
            self._wrapped = [self._begin_report(text)]
        elif (
            ("loss" in text and text.count("|") > 1 and _ITERATION_WORD.search(text))
            or (any(run.is_known_format for run in self._open.values()) and _STEP.search(text) and _LOSS.search(text))
        ) and not _OTHER_DATA.search(text):
            self._sure = True
            self._puzzle.add_unparsed(text)
        elif not self._runs and "loss" in text.lower() and _LOSS.search(text):
            self._puzzle.add_unparsed(text)

    def _reporter_of(self, text: str, offset: int) -> str:
        return self._rank or reporter_label(text, offset)

    def _iter_reports(self, text: str) -> Iterator[StepReport]:
        """Yield the steps that a line contains by itself."""
        if ("%|" in text or "━" in text) and (drawn := parse_bars(text)):
            yield from drawn
        elif "Epoch " in text and text.rstrip()[-1:].isdigit() and (epoch := _EPOCH.fullmatch(split_reporter(text)[1])):
            self._of_keras[self._split_reporter(text)[0]] = int(epoch[1]), int(epoch[2])
        elif (found := self._parse_keras(text) if self._of_keras and "/" in text else None) or (
            found := parse_known_program(text)
        ):
            yield found
        elif (timed := parse_step_time(text) if "Step Time" in text else None) is not None:
            self._merge_timing(timed)
        elif planned := _TOTAL_STEPS_LINE.search(text) if "optimization" in text else None:
            self._planned = finite_total(parse_count(planned.group(1).replace(",", "")))
        elif "loss" in text or "Loss" in text:
            yield from self._learned.learn_from_line(text)

    def _parse_keras(self, text: str) -> StepReport | None:
        """The step of a bar in the current epoch, else None; bars after its last step belong to other data."""
        reporter, _ = self._split_reporter(text)
        found = parse_keras(text, *self._of_keras[reporter]) if reporter in self._of_keras else None
        if found and _LAST_STEP_OF_EPOCH.search(text):
            del self._of_keras[reporter]
        return found

    def _split_reporter(self, text: str) -> tuple[str, str]:
        label, bare = split_reporter(text)
        return f"{self._rank}|{label}" if self._rank else label, bare

    def _begin_report(self, line: str) -> str:
        """Begin a report of several lines; returns its first line without labels."""
        self._close_open_report()
        (self._reporter, text), self._others = self._split_reporter(line), 0
        return text

    def _strip_reporter(self, line: str) -> str | None:
        """The line without process labels; None if another process printed it in between."""
        reporter, text = self._split_reporter(line)
        if reporter in {"", self._reporter}:
            return text
        if not self._reporter or self._metrics or self._others >= _MAX_REPORT_LINES:
            return line
        self._others += 1
        return None

    def _continues_report(self, line: str) -> bool:
        if (text := self._strip_reporter(line)) is None:
            return False
        if self._parts and _DICTIONARY_REST.match(text) and len(self._parts) < _MAX_REPORT_LINES:
            self._parts.append(text)
            if "}" in text:
                self._close_open_report()
            return True
        if self._metrics and begins_next_verl_step(text, self._metrics[0]):
            self._close_open_report()
            return False
        if self._metrics and (metric := _VERL_METRIC.match(text)) and len(self._metrics[1]) < 10 * _MAX_REPORT_LINES:
            self._metrics[1].append(text[metric.start(1) :])
            return True
        if self._wrapped and _NAMED_FIGURE.match(text) and len(self._wrapped) < _MAX_REPORT_LINES:
            self._wrapped.append(text.strip())
            return True
        if self._block and (added := self._block.add_line(text)):
            if isinstance(added, StepReport):
                self._add_report(added, "")
            return True
        if not (isinstance(self._block, MultilineReport) and self._block.may_continue(text)):
            self._close_open_report()
        return False

    def _close_open_report(self) -> None:
        parts, self._parts = self._parts, []
        metrics, self._metrics = self._metrics, None
        block, self._block = self._block, None
        wrapped, self._wrapped = self._wrapped, []
        if parts and (found := dicts.parse_dictionary(" ".join(parts), 0)):
            self._add_report(found, "")
        if metrics and (found := parse_verl(metrics[0], " ".join(metrics[1]))):
            self._add_report(found, "")
        if isinstance(block, MultilineReport) and (found := block.make_report()):
            self._add_report(found, "")
        for each in self._learned.learn_from_line(" ".join(wrapped)) if len(wrapped) > 1 else ():
            self._add_report(each, "")

    def _open_dictionary(self, text: str, start: int, raw_line: bytes | None) -> None:
        if "}" not in text[start:] and "..." not in text[start:]:
            self._begin_report(text)
            self._parts = [text[start:]]
            return
        for at, found in dicts.iter_dictionaries(text, start):
            if found is None:
                self._sure = True
                self._puzzle.add_unparsed(text)
            elif at > start and "}" not in text[at:] and "..." not in text[at:]:
                self._begin_report(text)
                self._parts = [text[at:]]
            else:
                self._add_report(found, self._reporter_of(text, at))
                self._find_layout(raw_line, dicts.parse_steps_of_line)

    def _find_layout(self, raw_line: bytes | None, parse_text: Callable[[str], list[StepReport]]) -> None:
        """Look for a new layout after some lines were parsed one by one; rarely, as it costs as much as 300 lines."""
        if raw_line is None or self._is_short:
            return
        self._alone += 1
        self._unlike += 1
        if self._alone not in _LAYOUT_TRIALS or self._unlike + 2000 < 300 * self._looked:
            return
        if any(layout.pattern.match(raw_line + b"\n") for layout in self._layouts):
            return
        self._looked += 1

        def parse_alone(text: str) -> tuple[StepReport, str] | None:
            words = ANSI_CODE.sub("", text)
            found = parse_text(words)
            return (found[0], reporter_label(words, found[0].at)) if len(found) == 1 else None

        if layout := learn_layout(raw_line.decode("utf-8", "replace"), parse_alone):
            self._layouts, self._alone = [layout, *self._layouts[: MAX_LAYOUTS - 1]], 0
            if self._shared is not None and layout.format != "key-value":
                self._shared[:] = layout, *self._shared[: MAX_LAYOUTS - 1]

    def _take_progress_bar(self, text: str) -> None:
        """Number steps by a progress bar of the training; a bar with a name in front, as of a download, is ignored."""
        for bar in iter_drawn_bars(text) if "it/s" in text or "s/it" in text else ():
            self._take_bar(bar)

    def _take_bars(self, bars: list[re.Match[bytes]]) -> None:
        """Use consecutive bars to number steps: those after a report until its number is certain, then the last."""
        run = self._open.get("dict")
        bars.reverse()
        while bars and run is not None and run.guessing:
            self._take_bar(make_plain_bar(bars.pop()))
        for bar in bars:
            if self._take_bar(make_plain_bar(bar)):
                break

    def _take_bar(self, bar: ProgressBar) -> bool:
        """Use a progress bar to number steps; returns whether it counts the steps of the run."""
        run = self._open.get("dict")
        total = self._planned or (run.total if run is not None and not run.finished else None)
        if total and bar.total != total:
            return False
        self._bar = bar
        if run is not None and run.guessing and run.renumber_by_bar(bar):
            self._has_changed = True
        return True

    def _merge_timing(self, timed_step: Step) -> None:
        """Merge Megatron-Bridge's timing line (rank 0) with the iteration line of the last rank, in any order."""
        run = self._open.get("megatron")
        if run is None or run.number is None:
            if self._timed is not None:
                self._add_report(StepReport("megatron-bridge", self._timed), "")
            self._timed = timed_step
        elif run.steps and close_in_time(run.steps[-1], timed_step) and run.steps[-1].tflops_per_gpu is None:
            run.steps[-1] = merge_reports(run.steps[-1], timed_step)
            run.format = "megatron-bridge"
            self._has_changed = True
        else:
            self._timed = timed_step

    def _add_report(self, report: StepReport, label: str) -> None:
        if report.format == "deepspeed":
            report.step, self._skipped = count_skipped(report.step, self._skipped)
            label = f"deepspeed {label}"
        elif report.format in EPOCH_FORMATS:
            report.step = self._epochs.renumber_step(report.step, label)
        self._add_step(report, label)

    def _add_step(self, report: StepReport, label: str) -> None:
        self._puzzle.add_parsed()
        run = self._find_or_make_run(report, label)
        if report.format != run.format and run.format in {"hf", "megatron"} and report.format not in SECOND_FORMATS:
            run.format = report.format
        if report.step.step is None and _FORMAT_FAMILIES.get(report.format) == "dict":
            run.add_unnumbered(report.step, self._bar)
        else:
            run.add_step(report.step, label)
        self._has_changed = True

    def _find_or_make_run(self, report: StepReport, label: str) -> RunReader:
        family, number = _FORMAT_FAMILIES.get(report.format, report.format), report.step.step
        if report.format in SECOND_FORMATS and number is not None:
            for run in self._open.values():
                if not run.finished and run.may_contain_step(number):
                    return run
        known = self._open.get(family) or find_library_run(self._open, report, number)
        if known is None or known.finished or (number is not None and known.begins_new_run(number, label)):
            if not self._runs and not self._sure:
                self._puzzle.unparsed_lines = None
            known = self._make_run(report.format)
            self._runs.append(known)
        self._open[family] = known
        return known


def parse_training(data: bytes, own: tuple[OwnFormat, ...] = (), *, is_short: bool = False) -> tuple[RunReader, ...]:
    """The training runs in a whole log; the arguments are those of TrainingParser."""
    parser = TrainingParser(own, is_short=is_short)
    parser.feed(data)
    parser.close()
    return parser.runs
