"""Commands in pods: in one with its own streams, or in many at once; a shell, also in the pod that replaces it.

`a4 facts`: what a container reports about itself. `a4 nccl-quick`: a short NCCL test on its GPUs.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from console.attach.exec_many import FactState, OutputGroup, QuickNcclTest, RankOutput, group_outputs, worst_exit_code
from console.errors import BadInput, ConsoleError, NotFound, Unreachable, Unreadable
from console.kube.objects.pod import Pod
from console.scheduling.pod_slots import PodFate, PodSlot, find_pod_slot, pod_fate
from screens.cli.arguments import (
    EXIT_CODES,
    Command,
    Commands,
    PodOptions,
    container_option,
    flag,
    json_flag,
    option,
    positive,
    seconds_of_a_day,
)
from screens.cli.job_arguments import JOB_KINDS, chosen_ranks, container_of, pod_words, running_pod
from screens.cli.open_session import open_session
from screens.cli.output import print_json, print_line, print_result, show_progress, warn, write_to_terminal
from screens.cli.prompts import ask_line, read_stdin
from screens.sanitize import for_terminal

if TYPE_CHECKING:
    from console.session import Session


MAX_HELD_BYTES = 1 << 16
"""Maximum bytes that are held back of an incomplete line; a longer one is printed without its end."""
_USAGE = "Write it after two dashes: a4 exec JOB POD -- nvidia-smi"


async def run_exec(options: ExecOptions) -> int:
    """Run a program in one rank live, or in many: its exit code or the worst, 124 after the limit. Raises BadInput."""
    if not options.argv:
        raise BadInput("No command was given.", _USAGE)
    many = options.every_rank or options.ranks
    if many and options.stdin:
        raise BadInput("Standard input cannot go to many pods.", "Name one pod, or leave out --stdin.")
    if many and options.rank_text:
        raise BadInput(f"Both pod {options.rank_text} and several pods were named.", "Leave one of them out.")
    async with open_session(options, JOB_KINDS) as session:
        fleet = session.fleet
        if many:
            ranks = chosen_ranks(fleet, session.namespace, options.job, options.ranks)
            return await run_in_many(session, ranks, options)
        rank = find_pod_slot(fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "no command can run in it")
        container = container_of(pod, options.container)
        if options.json:
            return await run_in_many(session, (rank,), options)
        stdin = read_stdin() if options.stdin else None
        running = session.watch.exec(
            pod.namespace, pod.name, options.argv, container=container, stdin=stdin, on_output=write_output
        )
        try:
            async with asyncio.timeout(options.limit):
                return await running
        except TimeoutError:
            warn(f"It was given up after {options.limit:g} s; it may still run there.")
            return 124


async def run_in_many(session: Session, ranks: tuple[PodSlot, ...], options: ExecOptions) -> int:
    """Run the program in these ranks and print their outputs; returns the worst exit code."""
    on_terminal = sys.stdout.isatty()
    by_line = options.lines or not (options.json or options.grouped or on_terminal)
    lines = RankOutputPrinter(max((rank.number for rank in ranks), default=0))
    answered = 0

    def ended(output: RankOutput) -> None:
        nonlocal answered
        answered += 1
        if by_line:
            lines.end(output)
        else:
            show_progress(f"{answered} of {len(ranks)} pods have answered")

    outputs = await session.container_exec.run_in_ranks(
        ranks,
        options.argv,
        container=options.container,
        concurrency=options.at_once,
        limit=options.limit or 60.0,
        on_output=lines.print_complete_lines if by_line else lambda *_: None,
        on_end=ended,
    )
    show_progress("")
    if options.json:
        items = [{"pod_index": each.rank, **asdict(each)} for each in outputs]
        print_json({"command": options.argv, "code": worst_exit_code(outputs), "ranks": items})
    elif not by_line:
        for group in group_outputs(outputs):
            show_group(group, bold=on_terminal)
    return worst_exit_code(outputs)


def show_group(group: OutputGroup, *, bold: bool) -> None:
    title = group.description + (f", exit code {group.code}" if group.code else "")
    mark = "✗ " if group.code else "≠ " if group.differs else ""
    style = ";31" if group.code else ";33" if group.differs else ""
    before, after = (f"\x1b[1{style}m", "\x1b[0m") if bold else ("", "")
    write_to_terminal(sys.stdout, f"{before}{for_terminal(f'{mark}{title}')}:{after}")
    if "\n" in group.output:
        print_line()
        for line in group.output.splitlines():
            print_line(f"  {line}")
    else:
        print_line(f" {group.output or '(no output)'}")


class RankOutputPrinter:
    """Prints the output of many ranks by whole lines, each prefixed with its rank."""

    def __init__(self, highest_rank: int) -> None:
        self._width = len(str(highest_rank))
        self._incomplete_lines: dict[tuple[int, int], bytes] = {}

    def print_complete_lines(self, rank: int, channel: int, data: bytes) -> None:
        """Print complete lines, and overlong incomplete ones; sanitized on a terminal."""
        whole, newline, rest = (self._incomplete_lines.pop((rank, channel), b"") + data).rpartition(b"\n")
        if len(rest) > MAX_HELD_BYTES:
            whole, newline, rest = whole + newline + rest, b"\n", b""
        self._incomplete_lines[rank, channel] = rest
        if not newline:
            return
        stream = sys.stdout if channel == 1 else sys.stderr
        before = f"{rank:{self._width}}: "
        text = before.encode() + whole.replace(b"\n", f"\n{before}".encode()) + b"\n"
        if stream.isatty():
            stream.write(text.decode(errors="replace"))
        else:
            stream.buffer.write(text)
        stream.flush()

    def end(self, output: RankOutput) -> None:
        for channel in (1, 2):
            if self._incomplete_lines.get((output.rank, channel)):
                self.print_complete_lines(output.rank, channel, b"\n")
        if output.failure or output.code:
            words = output.failure or f"exit code {output.code}"
            self.print_complete_lines(output.rank, 2, f"{words}\n".encode())


def write_output(channel: int, data: bytes) -> None:
    """Write a program's output to stdout (1) or stderr (2)."""
    stream = sys.stdout.buffer if channel == 1 else sys.stderr.buffer
    stream.write(data)
    stream.flush()


REPLACEMENT_TIMEOUT = 300.0
"""Seconds for which a replacing pod is waited for."""


async def run_shell(options: ShellOptions) -> int:
    async with open_session(options, JOB_KINDS) as session:
        rank = find_pod_slot(session.fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "no shell can be opened in it")
        while True:
            container = container_of(pod, options.container)
            try:
                code = await session.watch.shell(
                    pod.namespace, pod.name, container=container, tmux=options.tmux, name=pod_words(rank, options.job)
                )
                broken: ConsoleError | None = None
            except Unreachable as error:
                code, broken = error.exit_code, error
            if broken is None and (code == 0 or pod_fate(session.fleet, pod) is PodFate.HERE):
                return code
            warn(broken.message if broken else f"The shell ended with its pod (exit code {code}).")
            found = await wait_for_replacement(session, pod, options)
            if found is None:
                return code
            pod = found


async def wait_for_replacement(session: Session, pod: Pod, options: ShellOptions) -> Pod | None:
    """Wait for the pod that replaces a deleted one; None if none comes or the person interrupts."""
    warn("Waiting for the pod that replaces it; Ctrl-C stops waiting.")
    try:
        async with asyncio.timeout(REPLACEMENT_TIMEOUT):
            async for fleet in session.watch.snapshots():
                try:
                    rank = find_pod_slot(fleet, session.namespace, options.job, options.rank_text)
                    if pod_fate(fleet, pod) is PodFate.HERE:
                        found = pod
                    else:
                        found = running_pod(rank, options.job, "no shell can be opened in it")
                        if found.uid == pod.uid:
                            continue
                except NotFound as error:
                    if pod_fate(fleet, pod) is PodFate.OVER:
                        warn(f"No pod replaces it: {error.message}")
                        return None
                    continue
                same = found.uid == pod.uid
                what = (
                    f"{pod_words(rank, options.job).capitalize()} is {'still there' if same else f'now {found.name}'}"
                )
                return found if await ask_line(f"a4: {what}. Attach? [Y/n] ") in {"", "y", "yes"} else None
    except TimeoutError:
        warn(f"There was no running pod within {REPLACEMENT_TIMEOUT:.0f} s.")
    return None


async def run_facts(options: FactsOptions) -> int:
    """Print the facts of a container; returns 1 if one could not be read."""
    async with open_session(options, JOB_KINDS) as session:
        rank = find_pod_slot(session.fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "it cannot be asked")
        found = await session.container_exec.read_facts(
            pod, rank=rank.number, container=container_of(pod, options.container)
        )
    lines: list[str] = []
    for fact in found.facts:
        lines += [f"── {fact.title}{f': {fact.words}' if fact.words else ''}", *filter(None, [fact.text])]
    print_result(options.json, found, *lines)
    return int(any(fact.state is FactState.FAILED for fact in found.facts))


async def run_nccl_quick(options: NcclQuickOptions) -> int:
    """Run `a4 nccl-quick`; returns 1 if the test failed or had wrong values. Raises Unreadable if it printed no row."""
    from console.settings_file import own_log_formats
    from trainlog import (  # parsers of logs are of no use to the other commands
        LogResults,
        ResultsPrinter,
        print_results_json,
    )

    test = QuickNcclTest(options.first_size, options.last_size, options.test_gpus)
    async with open_session(options, JOB_KINDS) as session:
        rank = find_pod_slot(session.fleet, session.namespace, options.job, options.rank_text)
        pod = running_pod(rank, options.job, "no test can run in it")
        reading, printer = LogResults(own_log_formats()), ResultsPrinter(print_line)

        def on_output(channel: int, data: bytes) -> None:
            if channel == 2:
                for line in data.decode(errors="replace").splitlines():
                    warn(line)
            elif reading.feed(data) and not options.json:
                printer.more(reading)

        test.require_valid()
        if not options.json:
            warn(f"all_reduce_perf on the GPUs of pod {rank.number}, beside what runs there")
        await session.container_exec.run_quick_nccl_test(
            pod, test, on_output=on_output, container=container_of(pod, options.container), limit_seconds=options.limit
        )
    reading.close()
    if options.json:
        print_results_json(reading)
    else:
        printer.more(reading, has_ended=True)
    if not any(each.rows for each in reading.nccl):
        raise Unreadable(f"The test in pod {rank.number} of {options.job} printed no row.", "a4 exec shows its output.")
    return int(not reading.is_well)


class ExecOptions(PodOptions):
    container: str = container_option()
    stdin: bool = flag("-i", "--stdin", help="pass standard input on to the command")
    every_rank: bool = flag("--all", help="in every pod")
    ranks: str = option("--pods", "--ranks", metavar="LIST", help="in these pods, such as 0-3,7")
    at_once: int = option(
        "--at-once", type=positive, metavar="N", default=16, help="pods at the same time (default: 16)"
    )
    limit: float | None = option(
        "--limit", type=seconds_of_a_day, metavar="SECONDS", help="give a pod up after that (of many: 60 unless given)"
    )
    lines: bool = flag("--lines", apart="shown", help="each line after its pod, as it comes")
    grouped: bool = flag("--grouped", apart="shown", help="equal outputs once, with their pods")
    json: bool = json_flag(
        "as JSON: code, and of each pod (under ranks, an older name) pod_index, output and code", apart="shown"
    )
    argv: tuple[str, ...] = ()
    """The program to run and its arguments, typed after `--`."""


class ShellOptions(PodOptions):
    container: str = container_option()
    tmux: bool = flag("--no-tmux", default=True, help="no tmux, even where the image has it: the shell itself")


class FactsOptions(PodOptions):
    container: str = container_option()
    json: bool = json_flag()


class NcclQuickOptions(PodOptions):
    container: str = container_option()
    first_size: str = option("--first", metavar="SIZE", default="1M", help="first message size (default: 1M)")
    last_size: str = option("--last", metavar="SIZE", default="1G", help="last message size (default: 1G)")
    test_gpus: int = option(
        "--gpus", type=positive, metavar="N", default=0, help="of the pod's GPUs so many (default: all)"
    )
    limit: float = option(
        "--limit", type=seconds_of_a_day, metavar="SECONDS", default=120.0, help="give up after that (default: 120)"
    )
    json: bool = json_flag("as JSON, once it has ended")


COMMANDS: Commands = {
    "exec": Command(
        run_exec,
        ExecOptions,
        usage="a4 exec [-i] [-c C] JOB (POD | --all | --pods 0-3,7) [--json] -- COMMAND [ARGUMENT ...]",
        description="Run a command in one pod of a job, or in many. a4 exits with its code, of many with the highest. "
        "Of many pods a terminal shows equal outputs once; a pipe gets each line after its pod. What one pod prints "
        "passes as it is, control characters too.",
        epilog="Of many pods each has a stream of its own through the API server, --at-once of them at a time. None is "
        "reached by ssh from another pod, as a4 hang does it: so the command has the container's own environment and "
        f"working directory, and never runs twice in a pod; {EXIT_CODES}",
    ),
    "shell": Command(
        run_shell, ShellOptions, description="A shell in a pod. What it prints passes as it is, control characters too."
    ),
    "facts": Command(run_facts, FactsOptions),
    "nccl-quick": Command(
        run_nccl_quick,
        NcclQuickOptions,
        description="Run all_reduce_perf over the GPUs of one running pod, in one process and with gIB's environment, "
        "and print its rows as they come. It shares the GPUs with what runs there, which is slower meanwhile. Exit "
        "codes: 0, or 1 where it failed or values are wrong; see a4 --help for others. JSON: as of a4 read.",
    ),
}
