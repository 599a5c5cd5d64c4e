"""`trainlog read FILE`: what a log holds, as text or as JSON."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from trainlog.log_file import UnreadableLog
from trainlog.print_results import print_log

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trainlog command: 0 if the log was read, 1 for a failure with --check, else 2."""
    parser = argparse.ArgumentParser("trainlog", description=__doc__)
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    read = commands.add_parser("read", help="print NCCL tests, training steps, failures, scores and stacks of a log")
    read.add_argument("file", metavar="FILE", help="a log, or - for standard input as it comes")
    read.add_argument("--json", action="store_true", help="as JSON, once the log has ended")
    read.add_argument("--check", action="store_true", help="exit with 1 if a test failed or a failure is named")
    options = parser.parse_args(arguments)
    try:
        printed = print_log(options.file, _print_note, as_json=options.json)
    except UnreadableLog as error:
        _print_note(str(error))
        return 2
    except BrokenPipeError:  # who read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if printed.error is not None:
        _print_note(str(printed.error))
        return 2
    return EXIT_INTERRUPTED if printed.interrupted else int(options.check and not printed.results.is_well)


def _print_note(text: str) -> None:
    sys.stderr.write(f"trainlog: {text}\n")


if __name__ == "__main__":
    sys.exit(main())
