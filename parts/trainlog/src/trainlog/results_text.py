"""The results in a log as text lines, printed while the log is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

from trainlog.failure_kinds import group_sentences
from trainlog.log_results import EvalScore, LogResults
from trainlog.nccl.test_results import NcclRow, NcclTest, PackedRows
from trainlog.pyspy import ProcessStacks
from trainlog.training.run_reader import RunReader
from trainlog.training.steps import PackedSteps, Step

MAX_PRINTED_FAILURES = 20  # failures that are printed as text
_MAX_OPEN_TESTS = 16  # tests that may print into each other
_ROW_TITLES = f"{'bytes':>14} {'out of place':>13} {'in place':>9} GB/s  wrong"
_ROW = "%14d %13.2f %9.2f       %s"
_FORMS = ("loss %.6g", "grad norm %.4g", "lr %.3g", "%.4g s", "%.1f TFLOP/s", "%.0f tokens/s")
_FIRST_FIGURE, _LAST_FIGURE = Step._fields.index("loss"), Step._fields.index("tokens_per_s") + 1  # of a step


class ResultsPrinter:
    """Prints each test row and each step of a log once."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """`write` prints one line, or several with line ends between them."""
        self._print = write
        self._rows: dict[int, int] = {}  # test -> rows that were printed
        self._steps: list[int] = []
        self._done: set[int] = set()
        self._rewinds: dict[int, int] = {}
        self._first = 0  # tests before it are over and printed

    def more(self, results: LogResults, *, has_ended: bool = False) -> None:
        """Print what is new; a step whose number may still be corrected waits, unless `has_ended`."""
        tests = results.growing_tests
        for at in range(self._first, len(tests)):
            test, printed = tests[at], self._rows.get(at, 0)
            rows, over = len(test.rows), (test.finished or test.error) and at not in self._done
            begins = at not in self._rows and (rows or over)
            known = test.to_test(with_rows=False) if begins or over else NcclTest()
            lines = [_test_title(known)] if begins else []
            if rows > printed:
                lines += [] if printed else [_ROW_TITLES]
                for piece in test.rows.chunks(printed):
                    lines += _row_lines(piece)
            if rows or over:
                self._rows[at] = rows
            if over:
                self._done.add(at)
                lines.append(_test_end(known, rows))
            if lines:
                self._print("\n".join(lines))
        while self._first < len(tests) - _MAX_OPEN_TESTS and self._first in self._done:
            self._first += 1
        for at, run in enumerate(results.training):
            self._print_run(at, run, has_ended=has_ended)

    def _print_run(self, index: int, run: RunReader, *, has_ended: bool) -> None:
        if index == len(self._steps):
            self._steps.append(0)
            self._print(f"training: {run.format}")
        self._print_repeated_steps(index, run)
        settled = len(run.steps) - (run.is_number_uncertain and not has_ended)
        if self._steps[index] < settled:
            for piece in run.steps.chunks(self._steps[index], settled):
                self._print("\n".join(_step_lines(piece)))
        self._steps[index] = max(self._steps[index], settled)  # a step that was told may be open again

    def _print_repeated_steps(self, index: int, run: RunReader) -> None:
        """Print steps again that were repeated after a rollback."""
        if len(run.rewinds) == self._rewinds.get(index, 0):
            return
        news, self._rewinds[index] = run.rewinds[self._rewinds.get(index, 0) :], len(run.rewinds)
        self._print(f"restarted: step {news[-1].first} after {news[-1].last}")
        places = (run.steps.index_of(back.first) for back in news)
        self._steps[index] = min(self._steps[index], *(place for place in places if place is not None), len(run.steps))

    def end(self, results: LogResults) -> None:
        if results.from_json:
            self._print_whole_test(results.from_json)
        for at, test in enumerate(results.growing_tests):
            if at not in self._done:
                if at not in self._rows:
                    self._print(_test_title(test.to_test(with_rows=False)))
                self._print(_test_end(test.to_test(with_rows=False), len(test.rows)))
        lines = [
            *map(_run_end, results.training),
            *map(_score_text, results.scores),
            *map(_stacks_text, results.stacks),
        ]
        lines += [*_failure_lines(results), *([results.ended] if results.ended else ())]
        lines += [f"{what}: {unread.summary}: {unread.text}" for what, unread in results.unreadable.items()]
        for each in lines:
            self._print(each)
        if not results.has_results:
            self._print(
                "Nothing was found: no table of nccl-tests, no steps of training, no scores, stacks or failures."
            )

    def _print_whole_test(self, test: NcclTest) -> None:
        self._print(_test_title(test))
        self._print(
            "\n".join([*([_ROW_TITLES] if test.rows else ()), *_row_lines(test.rows), _test_end(test, len(test.rows))])
        )


def _failure_lines(results: LogResults) -> list[str]:
    lines = [f"failure: {each}" for each in group_sentences(results.failures)]
    rest = max(0, len(lines) - MAX_PRINTED_FAILURES) + results.more_failures
    more = f"failure: {rest:,} more; --json has {'the first of them' if results.more_failures else 'all'}"
    return [*lines[:MAX_PRINTED_FAILURES], *([more] if rest else ())]


def _score_text(score: EvalScore) -> str:
    value = "not known" if score.value is None else f"{score.value:g}"
    error = "" if score.error is None else f" ± {score.error:g}"
    more = ", ".join(each for each in (f"{score.shots} shots" if score.shots is not None else "", score.filter) if each)
    return f"{'  ' * score.depth}{score.task}  {score.metric} {value}{error}{f'  ({more})' if more else ''}"


def _stacks_text(process: ProcessStacks) -> str:
    lines = [f"process {'without a number' if process.pid is None else process.pid}: {process.command}".rstrip(" :")]
    lines += [f"  could not be read: {process.error}"] if process.error else []
    for thread in process.threads:
        state = f" ({', '.join(thread.state)})" if thread.state else ""
        lines.append(f"  {thread.name or thread.id}{state}")
        lines += [f"    {each.function} ({each.file}{f':{each.line}' if each.line else ''})" for each in thread.frames]
    return "\n".join(lines)


def _test_title(test: NcclTest) -> str:
    words = [test.program or "nccl-tests", test.version, f"{test.ranks} ranks" if test.ranks else None]
    return " ".join(word for word in words if word)


def _row_lines(rows: PackedRows | Sequence[NcclRow]) -> Iterable[str]:
    return map(_ROW.__mod__, rows.iter_speeds("-")) if isinstance(rows, PackedRows) else map(_row_text, rows)


def _row_text(row: NcclRow) -> str:
    halves = (row.out_of_place, row.in_place)
    speeds = ["-" if half is None or half.busbw is None else f"{half.busbw:.2f}" for half in halves]
    checked = [half.wrong for half in halves if half and half.wrong is not None]
    return f"{row.size:14} {speeds[0]:>13} {speeds[1]:>9}       {sum(checked) if checked else '-'}"


def _test_end(test: NcclTest, rows: int) -> str:
    average = "-" if test.avg_busbw is None else f"{test.avg_busbw:g} GB/s"
    measured = f"average bus bandwidth {average}" if rows or test.avg_busbw is not None else "no row was read"
    verdict = {True: ": OK", False: ": FAILED", None: ": not checked" if rows else ""}[test.ok]
    state = "" if test.finished else ", not finished"
    return f"{measured}{verdict}{state}{f' ({test.error})' if test.error else ''}"


_STEP_FORMATS: dict[tuple[bool, ...], tuple[str, Callable[[Step], Any]]] = {}


def _step_lines(steps: PackedSteps | list[Step]) -> Iterable[str]:
    columns = steps.columns if isinstance(steps, PackedSteps) and steps.whole else {}
    known = tuple([name in columns for name in Step._fields[:_LAST_FIGURE]])
    if not any(known) or "nan" in columns or "warm_up" in columns or any(columns.get("skipped", ())):
        return map(_step_text, steps)
    form, _ = _STEP_FORMATS.get(known) or _step_format(known)
    figures = [columns[name] for name in Step._fields[:_LAST_FIGURE] if name in columns]
    return map(form.__mod__, zip(*figures, strict=True))


def _step_text(step: Step) -> str:
    known = tuple([value is not None for value in step[:_LAST_FIGURE]])
    form, values = _STEP_FORMATS.get(known) or _step_format(known)
    words: str = form % values(step)
    if step[8] or step[9] or step[10]:
        words = "  ".join(
            [words, *["skipped"] * bool(step.skipped), *["NAN"] * step.nan, *["(warm-up)"] * step.warm_up]
        )
    return words


def _step_format(known_figures: tuple[bool, ...]) -> tuple[str, Callable[[Step], Any]]:
    """(format of a line, function for its values) for steps that have the same known figures."""
    at = ("%s" if known_figures[0] else "-") + ("/%s" if known_figures[1] else "")
    form = "  ".join([at, *(form for form, known in zip(_FORMS, known_figures[_FIRST_FIGURE:], strict=True) if known)])
    places = [place for place, known in enumerate(known_figures) if known]
    _STEP_FORMATS[known_figures] = form, itemgetter(*places) if places else lambda _: ()
    return _STEP_FORMATS[known_figures]


def _run_end(run: RunReader) -> str:
    last = run.steps[-1] if run.steps else None
    steps, restarts = _count_text(len(run.steps), "step"), _count_text(len(run.rewinds), "restart")
    summary = f"{run.format}: {steps}, {restarts}, {run.steps.nans:,} with NaN"
    if run.finished or last is None or last.step is None or last.total is None or last.step >= last.total:
        return summary
    return f"{summary}, ended at step {last.step:,} of {last.total:,}"


def _count_text(amount: int, noun: str) -> str:
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"
