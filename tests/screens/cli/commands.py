"""What `tests/screens/cli` types: plain commands, one after the other on the same cluster."""

import json
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from screens.__main__ import main
from screens.cli import command_line
from screens.cli.arguments import Options
from screens.cli.command_line import command_of
from tests.fakes import FakeSession


def parse(argv: list[str]) -> Any:
    """The options of one command line, of whatever class its command has."""
    return command_line.parse_command_line(argv)


async def perform(options: Options) -> int:
    """What `screens.__main__` does with the options of a plain command."""
    done = command_of(options.command).run(options)
    return done if isinstance(done, int) else await done


def given(session: FakeSession) -> Any:
    """Opens that session, for commands that take who opens theirs."""
    return lambda *_, **__: nullcontext(session)


LOADED = """
import sys
from screens.__main__ import main
try:
    main(sys.argv[1:])
finally:
    print(*sys.modules)
"""


def loaded(*argv: str) -> set[str]:
    """The modules that one command line imports."""
    words = [sys.executable, "-c", LOADED, *argv]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return set(ended.stdout.split())


class Commands:
    """Runs commands in this process."""

    def __init__(self, kubeconfig: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.kubeconfig, self.capfd = kubeconfig, capfd

    def run(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        code = main([argv[0], "--kubeconfig", str(self.kubeconfig), *argv[1:]])
        said = self.capfd.readouterr()
        return code, said.out, said.err

    def outputs(self, *argv: str, code: int = 0) -> tuple[str, str]:
        """Standard output and standard error of a command that succeeds, or exits with `code`."""
        found, out, err = self.run(*argv)
        assert found == code, err
        return out, err

    def json(self, *argv: str, code: int = 0) -> Any:
        """What a command says as JSON that succeeds, or exits with `code`."""
        return json.loads(self.outputs(*argv, "--json", code=code)[0])
