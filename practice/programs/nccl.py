"""Nccl-tests all_reduce under mpirun, row by row: recorded rows, or calculated ones for more than four GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from practice.programs import computed_tables
from practice.programs.fault_settings import JobFault, parse_faults, step_seconds, test_count
from practice.programs.hangs import HUNG_FACT
from practice.programs.recipes import worker_host_names
from practice.programs.recordings import NCCL_FILE, NCCL_SOURCE, all_reduce_header, all_reduce_rows, lines
from practice.programs.steps import ExitStep, PauseStep, PrintLine, ProgramContext, Step

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_ROW_SECONDS = 1.2
_WRONG = 12  # values that are wrong in a row that is told to have some


def parse_size(text: str) -> int:
    """Parse a size as nccl-tests does: ``2M``, ``16G``, ``1048576``; ValueError otherwise."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) * _UNITS[match[2]]


def is_single_process(context: ProgramContext) -> bool:
    """Return whether one process of the pod tests all its GPUs, without mpirun."""
    return context.env.get("A4_RECIPE") == "nccl-one-pod"


def run_all_reduce(context: ProgramContext) -> Iterator[Step]:
    """Print the tables of one run of all_reduce_perf, over all pods or this pod's GPUs."""
    yield from _print_tables(
        context, worker_host_names(context)[:1] if is_single_process(context) else worker_host_names(context)
    )


def _print_tables(context: ProgramContext, hosts: Sequence[str]) -> Iterator[Step]:
    """Yield one test's table, or several if the scene sets that, so that the test still runs when first looked at."""
    for _ in range(test_count(context)):
        yield from _print_table(context, hosts)


def _print_table(context: ProgramContext, hosts: Sequence[str]) -> Iterator[Step]:
    try:
        sizes = _test_sizes(context)
    except ValueError as error:
        yield PrintLine(f"invalid size specified: {error}")
        yield ExitStep(1)
        return
    note, header, rows = _calculated_table(context, hosts, sizes) or _recorded_table(sizes, hosts[0])
    yield PrintLine(f"# practice cluster: {note}")
    yield PauseStep(1.5)
    for line in header:
        yield PrintLine(_fill_settings(line, sizes, context))
    hang, fault, shown = _find_fault(context, "hang"), _find_fault(context, "wrong"), []
    wrong = fault.step if fault is not None else None
    for number, row in enumerate(rows):
        if hang is not None and number == hang.step:
            last = context.rank if is_single_process(context) else context.nodes - 1
            context.room.post(HUNG_FACT, last if hang.rank is None else hang.rank)
            yield PauseStep(10.0**8)
        yield PauseStep(step_seconds(context, _ROW_SECONDS) * (0.7 + 0.04 * number))
        shown.append(row if number != wrong else _with_wrong_values(row))
        yield PrintLine(shown[-1])
    if missing := len(sizes) - len(rows):
        yield PrintLine(
            f"# practice cluster: {missing} of {len(sizes)} sizes are left out, there is no recording of them"
        )
    spoilt = wrong is not None and wrong < len(shown)
    yield PrintLine(f"# Out of bounds values : {_WRONG} FAILED" if spoilt else "# Out of bounds values : 0 OK")
    yield PrintLine(f"# Avg bus bandwidth    : {_average_line(shown)} ")
    yield PrintLine("#")
    yield PrintLine("# Collective test concluded: all_reduce_perf")
    yield PrintLine("#")
    if spoilt:
        yield ExitStep(1)


def _find_fault(context: ProgramContext, kind: str) -> JobFault | None:
    """The first fault of that kind: in any pod, as one prints all rows; alone, in this pod. None if there is none."""
    alone = is_single_process(context)
    found = (each for each in parse_faults(context) if each.kind == kind)
    return next((each for each in found if not alone or each.rank in (None, context.rank)), None)


def _calculated_table(
    context: ProgramContext, hosts: Sequence[str], sizes: list[int]
) -> tuple[str, Sequence[str], list[str]] | None:
    """Return (lines above the table, header, rows), calculated; None for as few GPUs as were recorded."""
    ranks = len(hosts) * context.gpus
    if ranks < computed_tables.FROM_RANKS:
        return None
    # A ring is as fast as its slowest machine, so it does not matter which pod is named.
    slow = min((fault.step for fault in parse_faults(context) if fault.kind == "slow"), default=None)
    rows = computed_tables.table_rows(sizes, ranks, context.random, slow)
    return computed_tables.table_note(ranks), computed_tables.table_header(hosts, context.gpus), rows


def _recorded_table(sizes: list[int], host: str) -> tuple[str, Sequence[str], list[str]]:
    """Return (lines above the table, header, rows) from the recording, which has only some sizes."""
    note = f"this table is a recording on {NCCL_SOURCE}; it is not the speed of this cluster"
    rows = all_reduce_rows()
    return note, all_reduce_header(host), [rows[size] for size in sizes if size in rows]


def row_count(context: ProgramContext) -> int | None:
    """Return the number of rows of a test; None for invalid sizes."""
    try:
        return len(_test_sizes(context))
    except ValueError:
        return None


def _test_sizes(context: ProgramContext) -> list[int]:
    first, last = (parse_size(context.env.get(name, default)) for name, default in BOUNDS)
    factor = int(context.env.get(*FACTOR))
    if factor < 2 or not 0 < first <= last:
        raise ValueError(f"{first} to {last} by {factor}")
    sizes = [first]
    while sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


BOUNDS = (("A4_NCCL_BEGIN", "2M"), ("A4_NCCL_END", "16G"))
FACTOR = ("A4_NCCL_FACTOR", "2")  # variables that say what is measured, and what they are unless set


def _fill_settings(line: str, sizes: list[int], context: ProgramContext) -> str:
    """Put sizes and counts into the settings line."""
    if not line.startswith("# nThread"):
        return line
    line = re.sub(r"minBytes \d+ maxBytes \d+", f"minBytes {sizes[0]} maxBytes {sizes[-1]}", line)
    line = re.sub(r"step: \d+", f"step: {context.env.get('A4_NCCL_FACTOR', '2')}", line)
    line = re.sub(r"warmup iters: \d+", f"warmup iters: {context.env.get('A4_NCCL_WARMUP', '10')}", line)
    return re.sub(r" iters: \d+ agg", f" iters: {context.env.get('A4_NCCL_ITERS', '1')} agg", line)


def _average_line(rows: list[str]) -> str:
    """Return the mean bus bandwidth over both halves; for a complete recording the recorded value."""
    recorded = lines(NCCL_FILE)
    if rows == [line for line in recorded if line in rows] and len(rows) == sum(" float " in line for line in recorded):
        return next(line for line in recorded if line.startswith("# Avg bus")).partition(":")[2].strip()
    values = [float(row.split()[column]) for row in rows for column in (7, 11)]
    return f"{sum(values) / len(values):g}" if values else "0"


def _with_wrong_values(row: str) -> str:
    """Return the row with wrong values in its out-of-place half."""
    start, end = [found.span() for found in re.finditer(r"\S+", row)][8]
    return f"{row[: end - len(str(_WRONG))]}{_WRONG}{row[end:]}" if end - start == 1 else row
