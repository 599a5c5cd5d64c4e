"""Invented counters of NVLink and RDMA cards in a practice pod, which grow while its program works."""

from __future__ import annotations

import shlex
from pathlib import Path

_LINKS = 18  # NVLinks of a B200
_GROWTH_SCRIPT = """now=$(date +%s.%N)
grown() {{
    awk -v now="$now" -v since="$(stat -c %Y {state})" -v doing="$(cat {state})" -v train="$1" -v test="$2" \\
        'BEGIN {{ printf "%.0f", (now - since) * (doing == "train" ? train : doing == "test" ? test : 0) }}'
}}
"""
"""A shell function for a counter's value:  units a second while the program trains,  while it runs a test."""
_NVLINK_SCRIPT = """#!/bin/sh
# As `nvidia-smi nvlink -gt d`.
{grown}sent=$(grown 9500000 27000000)
gpu=0
while [ $gpu -lt {gpus} ]; do
    echo "GPU $gpu: NVIDIA B200 (UUID: GPU-00000000-0000-0000-0000-00000000000$gpu)"
    link=0
    while [ $link -lt {links} ]; do
        printf '\\t Link %d: Data Tx: %s KiB\\n\\t Link %d: Data Rx: %s KiB\\n' $link "$sent" $link "$sent"
        link=$((link + 1))
    done
    gpu=$((gpu + 1))
done
"""
_CUT_SCRIPT = """#!/bin/sh
case "$*" in
    */counters/port_*_data)
        {grown}grown {train} {test} ;;
    *) exec /usr/bin/cut "$@" ;;
esac
"""


def counter_scripts(state: str, gpus: int, nodes: int) -> dict[str, str]:
    """Return by program name the scripts that print NVLink counters, and `cut`, which prints RDMA counters."""
    grown = _GROWTH_SCRIPT.format(state=state)
    train, test = (5_000_000_000, 11_000_000_000) if nodes > 1 else (0, 0)
    return {
        "nvlink-counters": _NVLINK_SCRIPT.format(grown=grown, gpus=gpus, links=_LINKS),
        "cut": _CUT_SCRIPT.format(grown=grown, train=train, test=test),
    }


def write_counters(rdma: Path) -> None:
    """Write the counter files of each RDMA port; their content comes from the imitation of `cut`."""
    for port in rdma.glob("*/ports/*"):
        folder = port / "counters"
        folder.mkdir(exist_ok=True)
        for name in ("port_rcv_data", "port_xmit_data"):
            (folder / name).write_text("0\n")


def nvlink_case(folder: Path) -> str:
    """Return the branch of the nvidia-smi script that prints NVLink counters."""
    return f"*nvlink*) exec {shlex.quote(str(folder / 'nvlink-counters'))} ;;"
