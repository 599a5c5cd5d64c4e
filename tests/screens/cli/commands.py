"""What `tests/screens/cli` types: plain commands, one after the other on the same cluster."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from screens.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Commands:
    """Runs commands in this process."""

    def __init__(self, kubeconfig: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.kubeconfig, self.capfd = kubeconfig, capfd

    def run(self, *argv: str) -> tuple[int, str, str]:
        """Exit code, standard output, standard error."""
        code = main([argv[0], "--kubeconfig", str(self.kubeconfig), *argv[1:]])
        said = self.capfd.readouterr()
        return code, said.out, said.err

    def json(self, *argv: str) -> Any:
        """What a command that succeeds says as JSON."""
        code, out, told = self.run(*argv, "--json")
        assert code == 0, told
        return json.loads(out)
