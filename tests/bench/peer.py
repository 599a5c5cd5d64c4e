"""The peers, built from their Go modules with the versions pinned beside this file."""

import os
import subprocess
from pathlib import Path

from tests.lab.build import LabError, find_go

ROOT = Path(__file__).resolve().parents[2]
K9S_MODULE = Path(__file__).parent / "k9s"
BUILT = ROOT / ".tools/bench/k9s"


def k9s() -> Path:
    """The k9s binary; built once (about 6 minutes on 2 cores), then kept."""
    pins = (K9S_MODULE / "go.mod").stat().st_mtime
    if BUILT.exists() and BUILT.stat().st_mtime >= pins:
        return BUILT
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-buildvcs=false"}
    command = [find_go(), "build", "-trimpath", "-ldflags=-s -w", "-o", str(BUILT), "github.com/derailed/k9s"]
    BUILT.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(command, cwd=K9S_MODULE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"k9s could not be built: {done.stderr[-800:]}")
    os.utime(BUILT)
    return BUILT
