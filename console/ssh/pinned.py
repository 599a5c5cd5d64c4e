"""What `a4 proxy` has to know later, started by ssh from anywhere: where the kubeconfig is, and a4 itself."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.settings import Settings


def pinned(settings: Settings) -> tuple[str, bool]:
    """The kubeconfig that `a4 proxy` has to read later, from wherever it is started; whether it is a list of files."""
    if settings.kubeconfig:
        return str(settings.kubeconfig.expanduser().absolute()), False
    listed = [Path(each).expanduser().absolute() for each in os.environ.get("KUBECONFIG", "").split(os.pathsep) if each]
    there = [str(each) for each in listed if each.exists()]
    if there:
        return os.pathsep.join(there), len(there) > 1
    home = Path.home() / ".kube" / "config"
    return (str(home), False) if home.exists() else ("", False)


def program() -> tuple[str, ...]:
    """How this a4 is started from anywhere."""
    beside = Path(sys.executable).with_name("a4")
    if beside.exists():
        return (str(beside),)
    found = shutil.which("a4")
    return (found,) if found else (sys.executable, "-P", "-m", "screens")
