"""`a4` as it is typed: command lines in, exit code and what was printed out."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screens.__main__ import main


@dataclass(frozen=True, slots=True)
class Said:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Typist:
    """Somebody at a terminal, on one cluster."""

    kubeconfig: Path

    def a4(self, *words: str) -> Said:
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["--kubeconfig", str(self.kubeconfig), *words])
        return Said(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))

    def worked(self, *words: str) -> Said:
        said = self.a4(*words)
        assert said.code == 0, f"a4 {' '.join(words)}: {said.err}{said.out}"
        return said
