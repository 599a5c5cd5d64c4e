"""`a4 read`: parses a log from a file or pipe; needs no cluster."""

from __future__ import annotations

from console.errors import BadInput
from console.settings_file import own_log_formats
from screens.cli.arguments import STEP_KEYS, TEST_KEYS, Command, Commands, Options, flag, json_flag, word
from screens.cli.output import print_error, warn
from trainlog import UnreadableLog, print_log

EXIT_INTERRUPTED = 130


def run_read(options: ReadOptions) -> int:
    """Print the parsed log: as JSON at its end, else line by line; returns the exit code. BadInput if not readable."""
    try:
        printed = print_log(options.file, warn, own_log_formats(), as_json=options.json)
    except UnreadableLog as error:
        raise BadInput(error.message, error.hint) from error
    if printed.error is not None:
        return print_error(BadInput(printed.error.message, printed.error.hint))
    return EXIT_INTERRUPTED if printed.interrupted else int(options.check and not printed.results.is_well)


class ReadOptions(Options):
    check: bool = flag("--check", help="exit with 1 if a test failed or a failure is named")
    file: str = word("FILE", help="a log, or - for standard input as it comes")
    json: bool = json_flag("as JSON, once the log has ended")


COMMANDS: Commands = {
    "read": Command(
        run_read,
        ReadOptions,
        epilog=f"JSON: nccl ({TEST_KEYS}), training (format, steps: {STEP_KEYS}), failures (kind, rank, host, line, "
        "text, hint, times), restarts (run: its place in training, last and first: step before and after), ended (what "
        "torchrun, mpirun or Slurm says at the end), scores (of lm-eval: task, metric, value, error, shots, filter, "
        "version, depth, group, better), stacks (of py-spy: pid, command, python, threads, error), and unreadable "
        "(first, last, lines, text, goes_on) where lines could not be "
        'read. What is not known is null, never 0; numbers that are none are the texts "nan" and "inf". Exit codes: 0 '
        "it was read, 2 it cannot be, 1 with --check if a test failed or a failure is named; see a4 --help.",
    )
}
