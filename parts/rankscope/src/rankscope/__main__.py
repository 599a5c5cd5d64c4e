"""`rankscope hang | slow | script`: verdicts by what the scripts of this package printed in pods."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rankscope import poll_ras, probe
from rankscope.errors import UnreadableAnswer
from rankscope.flight_recorder import describe_dumps
from rankscope.hang_report import HangReport
from rankscope.nccl_ras import parse_ras
from rankscope.pod_answers import (
    PodAnswer,
    judge_processes,
    list_dumps,
    list_processes,
    parse_or_explain,
    refuse_foreign_ranks,
)
from rankscope.report_texts import format_report, format_slow_report, report_to_json, slow_report_to_json
from rankscope.slow_ranks import find_slow_ranks, parse_polls

SCRIPTS = {"hang": probe.__file__, "slow": poll_ras.__file__}


@dataclass(frozen=True)
class PodFile:
    """A pod known only by the file with its answer; its number is the file's position."""

    number: int
    name: str
    node: str = ""
    address: str = ""
    gpus: int = 0
    replicated_job: str = ""


def report_on_files(files: Sequence[Path]) -> HangReport:
    """The hang report on a job by the answers of its pods, given in their order."""
    pods = [PodFile(number, path.stem) for number, path in enumerate(files)]
    answers = refuse_foreign_ranks(
        [(pod, parse_or_explain(path.read_bytes())) for pod, path in zip(pods, files, strict=True)]
    )
    traces, processes = list_processes(answers)
    texts = (each.ras.text for _, each in answers if isinstance(each, PodAnswer) and each.ras and each.ras.text)
    dumps = list_dumps(answers)
    return HangReport(
        files[0].parent.name,
        tuple(traces),
        tuple(processes),
        parse_ras(next(texts, "")),
        recorded=judge_processes(dumps, processes),
        recorder_words=describe_dumps(dumps),
        dumps=tuple(dumps),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a verdict and return 0; 2 if an answer cannot be read."""
    parser = argparse.ArgumentParser("rankscope", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="command")
    hang = commands.add_parser(
        "hang", help="who the ranks of a job wait for, by the answers of its pods in their order"
    )
    hang.add_argument("files", metavar="FILE", nargs="+", type=Path)
    slow = commands.add_parser("slow", help="which rank is slow, by the answers of NCCL's RAS service")
    slow.add_argument("file", metavar="FILE", type=Path)
    for each in (hang, slow):
        each.add_argument("--json", action="store_true")
    commands.add_parser("script", help="the file of the script that runs in pods").add_argument(
        "which", choices=SCRIPTS
    )
    options = parser.parse_args(arguments)
    try:
        if options.command == "script":
            lines = [SCRIPTS[options.which]]
        elif options.command == "hang":
            lines = _output_lines(report_on_files(options.files), format_report, report_to_json, as_json=options.json)
        else:
            report = find_slow_ranks(parse_polls(options.file.read_bytes()))
            lines = _output_lines(report, format_slow_report, slow_report_to_json, as_json=options.json)
    except (UnreadableAnswer, OSError) as error:
        sys.stderr.write(f"rankscope: {error}\n")
        return 2
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


def _output_lines(
    report: object, text: Callable[..., list[str]], members: Callable[..., dict[str, object]], *, as_json: bool
) -> list[str]:
    return [json.dumps(members(report), indent=2)] if as_json else text(report)


if __name__ == "__main__":
    sys.exit(main())
