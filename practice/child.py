"""Starts and ends a practice cluster in a process of its own, so that it does not slow down the console."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from console import assets
from console.errors import ConsoleError
from practice.folder_removal import remove_folder

_STOP_SECONDS = 5.0


@dataclass(slots=True)
class PracticeProcess:
    """A practice cluster in a child process, which ends with this process.

    The child watches its standard input: a pipe that only this process holds open.
    """

    process: subprocess.Popen[str]
    stderr_file: IO[str] = field(repr=False)
    """The child's standard error, kept away from the terminal while a console uses it."""
    _ready: Path | None = field(default=None, repr=False)

    @classmethod
    def start(cls, *, speed: float = 1.0, seed: int = 0, scene: str = "full") -> PracticeProcess:
        """Start the process and return at once; `scene` "empty" has nodes and queues, but no job."""
        program = assets.module_command(
            "practice", "--parent-pipe", "--speed", str(speed), "--seed", str(seed), "--scene", scene
        )
        complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115  # open until `stop`
        process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=complaints,
            text=True,
            cwd=assets.CHILD_WORKING_FOLDER,
            env=assets.module_environment(),
            start_new_session=True,  # Ctrl-C in the terminal is meant for the console
        )
        return cls(process, complaints)

    def kubeconfig(self) -> Path:
        """Wait until the cluster is ready and return the kubeconfig's path. Raises ConsoleError if it cannot start."""
        if self._ready is None:
            line = self.process.stdout.readline() if self.process.stdout is not None else ""
            if not line:
                code = self.process.wait()
                last = self._read_stderr().strip().rpartition("\n")[2]
                text = f"The practice cluster could not start: its process ended with exit code {code}"
                raise ConsoleError(f"{text}: {last}" if last else f"{text}.", "Run `a4 practice` to see what it says.")
            self._ready = Path(json.loads(line)["kubeconfig"])
        return self._ready

    def stop(self) -> None:
        """End the process and wait for its clean-up; its warnings go to standard error."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            if self._ready is not None:
                remove_folder(self._ready.parent)
        if self.process.stdout is not None:
            self.process.stdout.close()
        if not self.stderr_file.closed:
            sys.stderr.write(self._read_stderr())
            self.stderr_file.close()

    def _read_stderr(self) -> str:
        self.stderr_file.seek(0)
        return self.stderr_file.read()
