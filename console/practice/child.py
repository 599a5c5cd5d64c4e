"""The practice cluster in a process of its own, so that its work never delays a frame of the console.

The child ends when its standard input closes, which happens by itself when the parent ends in whatever way.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from console.errors import Unreachable

SECONDS_TO_STOP = 5.0


@dataclass(slots=True)
class PracticeProcess:
    """A practice cluster that is starting, or serves."""

    child: subprocess.Popen[str]
    _kubeconfig: Path | None = None

    @classmethod
    def start(cls, *, speed: float = 1.0, seed: int = 0) -> Self:
        """Start it and return at once: `kubeconfig` waits until it serves."""
        argv = [sys.executable, "-m", "console.practice", "--parent-pipe", f"--speed={speed}", f"--seed={seed}"]
        root = str(Path(__file__).resolve().parents[2])
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 cwd=root, start_new_session=True)  # fmt: skip
        return cls(child)

    def kubeconfig(self) -> Path:
        """Its kubeconfig; blocks until the cluster serves."""
        if self._kubeconfig is None:
            assert self.child.stdout is not None
            line = self.child.stdout.readline()
            if not line:
                raise Unreachable(f"The practice cluster did not start: {self._last_words()}", "Try again: a4 --demo")
            self._kubeconfig = Path(json.loads(line)["kubeconfig"])
        return self._kubeconfig

    def _last_words(self) -> str:
        assert self.child.stderr is not None
        lines = self.child.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"it ended with code {self.child.wait()}"

    def stop(self) -> None:
        """End it and wait until it has tidied up."""
        assert self.child.stdin is not None
        self.child.stdin.close()
        try:
            self.child.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        for stream in (self.child.stdout, self.child.stderr):
            if stream is not None:
                stream.close()
