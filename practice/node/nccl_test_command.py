"""Imitations of `mpirun` and nccl-tests for commands typed in a shell of a practice pod.

`python -m practice.node.nccl_test_command ROOT GPUS RANK PROGRAM ARGUMENT...`;
ROOT is the folder with the pod's own files.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import sys
from itertools import pairwise
from pathlib import Path

from practice.programs import computed_tables
from practice.programs.nccl import parse_size
from practice.programs.recordings import NCCL_SOURCE, all_reduce_header, all_reduce_rows

_TEST = re.compile(r"(\w+_perf)\b")
_OPTIONS = {"-b": "32M", "-e": "32M", "-f": "0"}
"""Options of nccl-tests for sizes and factor, with their defaults."""
_NOT_RUN, _FAILED = 127, 1


def main(argv: list[str]) -> int:
    """Print what the NCCL test program would print; return its exit code."""
    root, gpus, program, words = Path(argv[0]), int(argv[1]), argv[3], argv[4:]
    if not program.startswith("mpi"):
        return _print_nccl_test(
            program, words, [os.environ.get("HOSTNAME", "localhost")], _option_number(words, "-g", 1)
        )
    hosts = _parse_hosts(root, words) or [(os.environ.get("HOSTNAME", "localhost"), gpus)]
    ranks = [name for name, slots in hosts for _ in range(slots)]
    count = _option_number(words, "-np", 0) or _option_number(words, "-n", 0) or len(ranks)
    if count > len(ranks):
        _print_error(f"There are not enough slots available in the system to satisfy the {count} slots")
        _print_error("that were requested by the application.")
        return _FAILED
    whole = shlex.join(words)
    found = _TEST.search(whole)
    if found:
        inner = shlex.split(whole[found.end() :].strip("'\""))
        return _print_nccl_test(found[1], inner, ranks[:count], 1)
    if words and (words[-1] == "hostname" or words[-1].endswith("hostname'")):
        _print_line("\n".join(name.split(".")[0] for name in ranks[:count]))
        return 0
    _print_error(f"practice cluster: mpirun starts nothing here but hostname and nccl-tests: {whole}")
    return _NOT_RUN


def _parse_hosts(root: Path, arguments: list[str]) -> list[tuple[str, int]]:
    """The hosts in the host file named by the arguments, with their slots."""
    named = next((after for word, after in pairwise(arguments) if word.endswith("hostfile")), "")
    path = root / named.removeprefix("/") if named else root / "nowhere"
    path = path if path.is_file() else Path(named or "/nowhere")
    if not path.is_file():
        return []
    rows = (line.split() for line in path.read_text().splitlines() if line.strip())
    return [(row[0], int(dict(part.split("=") for part in row[1:]).get("slots", "1"))) for row in rows]


def _print_nccl_test(program: str, arguments: list[str], hosts: list[str], gpus_per_rank: int) -> int:
    """Print the table of a test; `hosts` has one name per rank, and each rank has `gpus_per_rank` GPUs."""
    ranks = len(hosts) * gpus_per_rank
    if program != "all_reduce_perf":
        _print_error(f"practice cluster: there is no table of {program} here; all_reduce_perf has one")
        return _NOT_RUN
    try:
        sizes = _parse_sizes(arguments)
    except ValueError as error:
        _print_error(f"invalid size specified: {error}")
        return _FAILED
    if ranks >= computed_tables.FROM_RANKS:
        names = list(dict.fromkeys(hosts))
        note, header = computed_tables.table_note(ranks), computed_tables.table_header(names, ranks // len(names))
        rows = computed_tables.table_rows(sizes, ranks, random.Random(ranks))
    else:
        note = f"this table is a recording on {NCCL_SOURCE}; it is not the speed of this cluster"
        recorded = all_reduce_rows()
        header, rows = all_reduce_header(hosts[0]), [recorded[size] for size in sizes if size in recorded]
    values = [float(row.split()[column]) for row in rows for column in (7, 11)]
    _print_error(f"practice cluster: {note}")
    _print_line("\n".join([*header, *rows]))
    if missing := len(sizes) - len(rows):
        _print_error(f"practice cluster: {missing} of {len(sizes)} sizes are left out, there is no recording of them")
    _print_line("# Out of bounds values : 0 OK")
    _print_line(f"# Avg bus bandwidth    : {sum(values) / len(values) if values else 0:g} \n#")
    return 0


def _parse_sizes(arguments: list[str]) -> list[int]:
    given = {option: _option_text(arguments, option, usual) for option, usual in _OPTIONS.items()}
    first, last, factor = parse_size(given["-b"]), parse_size(given["-e"]), int(given["-f"])
    sizes = [first]
    while factor > 1 and sizes[-1] * factor <= last:
        sizes.append(sizes[-1] * factor)
    return sizes


def _option_text(arguments: list[str], option: str, default: str) -> str:
    return next((after for word, after in pairwise(arguments) if word == option), default)


def _option_number(arguments: list[str], option: str, default: int) -> int:
    text = _option_text(arguments, option, "")
    return int(text) if text.isdecimal() else default


def _print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _print_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
