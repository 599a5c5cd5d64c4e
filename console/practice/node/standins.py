"""Programs that a pod has and this machine may lack: small scripts that print what was recorded on a real one."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from console.practice.programs.script import Place

_DATA = Path(__file__).parent.parent / "data"
_SMI = """#!/bin/sh
echo "practice cluster: a recording on 8 x NVIDIA H200 at rest" >&2
case "$*" in
    *topo*) exec cat {topo} ;;
    *--query-gpu*|*-L*) exec cat {csv} ;;
    *) exec cat {table} ;;
esac
"""


def write_standins(folder: Path, place: Place) -> None:
    """Write the stand-ins into ``folder/.bin``, which comes first in the pod's PATH."""
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    files = {key: shlex.quote(str(_DATA / f"nvidia_smi{end}.txt")) for key, end in _ENDINGS.items()}
    scripts = {
        "nvidia-smi": _SMI.format(**files),
        "hostname": f"#!/bin/sh\necho {shlex.quote(place.env.get('HOSTNAME', ''))}\n",
    }
    for name, text in scripts.items():
        path = bin_folder / name
        path.write_text(text)
        path.chmod(0o755)


_ENDINGS = {"table": "", "csv": "_csv", "topo": "_topo"}
