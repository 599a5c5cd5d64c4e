"""The entry point of `a4`: starts the console or one plain command."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from console.errors import BadInput, ConsoleError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from screens.cli.arguments import Options
    from screens.cli.command_line import ConfigOptions, ConsoleOptions, PracticeOptions, TourOptions, ViewOptions

TOUR_SPEED = 8.0  # how much faster than life the practice cluster runs during the tour
GC_THRESHOLDS = (2_000, 10, 2_500)
"""Thresholds of Python's garbage collector. A large cluster is a million objects that stay: with the defaults, a
collection after each 700 new objects costs a quarter of the time in which the lists arrive. A collection of more than
some 50,000 objects at once delays keys.
"""
COMMAND_GC_THRESHOLD = 200_000  # new objects after which a plain command looks for what to free: most make fewer
THREAD_END_SECONDS = 0.5  # seconds after Ctrl-C in which threads may end by themselves
WANTED_FILES, MIN_FILES = 4096, 48  # files that may be open: as many as it is worth to ask for, and too few
MIN_ADDRESS_SPACE_BYTES = 288 << 20  # bytes of address space without which not even the libraries can be loaded
EXIT_INTERRUPTED = 130  # what a shell expects of a program ended by Ctrl-C


def run_and_leave() -> NoReturn:
    """Run this process's command line and end it without freeing each object, which takes a twentieth of `a4 pods`."""
    code = main()
    if threading.active_count() == 1:
        atexit._run_exitfuncs()
        with suppress(OSError, ValueError):  # Python itself says what could not be written
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    gc.set_threshold(COMMAND_GC_THRESHOLD)
    from screens.cli import crash_report  # and all that is imported for it, in which Python would look 18 times

    argv = sys.argv[1:] if argv is None else argv
    is_closed = sys.stdout is None
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed: else the next file that is opened would take its place
            place = os.open(os.devnull, os.O_RDWR)
            if name != "stdin":  # who reads that says that it is closed
                setattr(sys, name, os.fdopen(place, "w"))
    crash_report.install_hooks()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks for the words that may stand at the cursor
        from screens.cli.command_line import parser_of_line
        from screens.cli.completion import print_completions

        print_completions(*parser_of_line(os.environ["COMP_LINE"]))
    os.umask(os.umask(0o077) | 0o022)  # whatever the shell says: nobody else may write what this program makes
    if "proxy" in argv:
        gc.disable()  # imports make much and drop nothing: looking for what to free costs some of the time
        from screens.cli import proxy  # before everything else is imported: ssh waits for it

        if (words := proxy.proxy_arguments(argv)) is not None:
            return proxy.run_proxy_command(words)
        gc.enable()
    from screens.cli.output import message_style, sanitized_output

    crash_report.install_log_handler()
    with sanitized_output(), message_style(as_json="--json" in (argv[: argv.index("--")] if "--" in argv else argv)):
        return run_command(argv, is_closed=is_closed)


def check_limits() -> None:
    """Raise this process's limit of open files as far as allowed. Raises BadInput if too few are left."""
    import resource

    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < WANTED_FILES:
        files = WANTED_FILES if most == resource.RLIM_INFINITY else min(most, WANTED_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    if files < MIN_FILES:
        raise BadInput(f"{files} open files are allowed here, and {MIN_FILES} are needed.", "Raise that: ulimit -n.")
    if 0 <= memory < MIN_ADDRESS_SPACE_BYTES:
        allowed = f"{memory >> 20} MiB of memory are allowed here"
        raise BadInput(f"{allowed}, and {MIN_ADDRESS_SPACE_BYTES >> 20} MiB are needed.", "Raise that: ulimit -v.")


def run_command(argv: list[str], *, is_closed: bool = False) -> int:
    """Run one plain command and print its errors; returns the exit code."""
    from screens.cli.output import print_error

    try:
        check_limits()
        if is_closed:
            raise ConsoleError("The output could not be written: standard output is closed.", "Redirect it.")
        from console.folders import make_own_folders_private
        from screens.cli import command_line

        make_own_folders_private()
        return run_options(command_line.parse_command_line(argv))
    except ConsoleError as error:
        return print_error(error)
    except MemoryError:
        return print_error(ConsoleError("There is not enough memory for this.", "Close something, or raise ulimit -v."))
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        discard_output()
        return 0
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        discard_output()
        return print_error(ConsoleError(f"The output could not be written: {error.strerror}.", "Free some space."))


def discard_output() -> None:
    """Redirect standard output to nowhere, also for writes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_options(options: Options) -> int:
    from screens.cli import command_line

    others: dict[str, Callable[[Any], int]] = {
        "": open_console,
        "view": view_file,
        "tour": run_tour,
        "practice": serve_practice,
        "config": show_settings,
    }
    if options.command in others:
        return others[options.command](options)
    done = command_line.command_of(options.command).run(options)
    if isinstance(done, int):
        return done
    return run_to_end(done)


def run_to_end(coroutine: Coroutine[Any, Any, int]) -> int:
    """Run a plain command in a thread, so that Ctrl-C ends it within a second."""
    import asyncio

    from console import work_slices

    def leave() -> None:
        work_slices.wait_until_finished()  # what would stay half made, as a release
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(EXIT_INTERRUPTED)

    runner = asyncio.Runner()
    leaving = threading.Timer(THREAD_END_SECONDS, leave)
    leaving.daemon = True
    try:
        return runner.run(coroutine)
    except KeyboardInterrupt:
        leaving.start()
        raise
    finally:
        runner.close()  # waits for threads
        leaving.cancel()


def open_console(options: ConsoleOptions) -> int:
    if options.plain:
        from screens.cli.plain import run_plain

        return run_to_end(run_plain(options))
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):
        raise BadInput(
            "The console needs a terminal.", "Without one: `a4 --plain`, or a command such as `a4 jobs --json`."
        )
    if os.environ.get("TERM", "").lower() in {"dumb", "unknown"}:  # such as the shell in Emacs
        raise BadInput(
            "The console cannot draw on this terminal: TERM is dumb.", "`a4 --plain` tells the same in lines."
        )
    from screens.cli.open_session import practice_cluster

    gc.set_threshold(*GC_THRESHOLDS)
    with practice_cluster(options) as practice:  # starts in a process of its own while Textual is imported
        from screens.app import ConsoleApp
        from screens.key_ordered_app import use_one_heap

        use_one_heap()
        app = ConsoleApp(options.settings(), practice)
        app.run()
        return app.return_code or 0


def view_file(options: ViewOptions) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadInput("a4 view needs a terminal.", "Without one: a4 read FILE, grep, less.")
    from screens.pages.log import view_log_file as show

    return show(options.file)


def run_tour(options: TourOptions) -> int:
    from screens.tour import run_tour as drive

    return drive(options.folder, speed=options.demo_speed or TOUR_SPEED, seed=options.seed)


def serve_practice(options: PracticeOptions) -> int:
    from practice.__main__ import serve_practice_cluster

    return serve_practice_cluster(speed=options.speed or options.demo_speed or 1.0, seed=options.seed)


def show_settings(options: ConfigOptions) -> int:
    from screens.apply_settings import show_config

    return show_config(options)


if __name__ == "__main__":
    run_and_leave()
