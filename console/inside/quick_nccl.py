"""A quick NCCL test inside a running pod: all_reduce_perf over its GPUs, in one process, with gIB's environment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from console.errors import BadInput

_SIZE = re.compile(r"([1-9]\d{0,14})([KMG]?)")
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}
SCRIPT = r"""
perf=/third_party/nccl-tests/build/all_reduce_perf
[ -x "$perf" ] || perf=$(command -v all_reduce_perf) || exit 44
if [ -r /tmp/export_init_env.sh ]; then
    . /tmp/export_init_env.sh
elif [ -r /usr/local/gib/scripts/set_nccl_env.sh ]; then
    export LD_LIBRARY_PATH="/usr/local/gib/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    . /usr/local/gib/scripts/set_nccl_env.sh
fi
gpus=$3
[ "$gpus" -gt 0 ] || gpus=${GPUS_PER_NODE:-$(nvidia-smi -L | grep -c "^GPU ")}
by="-f 2"
[ "$1" != "$2" ] || by="-i 1"
exec "$perf" -b "$1" -e "$2" $by -g "$gpus"
"""
"""Of bash. The first file is what the launchers leave for mpirun: the pod's environment, and gIB's script."""


@dataclass(frozen=True, slots=True)
class QuickTest:
    """What is measured: from the first to the last message size, each twice the one before."""

    first: str = "1M"
    """Bytes, or with K, M or G (powers of 1024)."""
    last: str = "1G"
    gpus: int = 0
    """GPUs of the pod that take part; 0: all."""

    def check(self) -> None:
        """Raise BadInput where sizes or GPUs cannot be."""
        first, last = _bytes(self.first), _bytes(self.last)
        if first > last:
            raise BadInput(f"The first size {self.first} is above the last, {self.last}.", "Exchange them.")
        if self.gpus < 0:
            raise BadInput(f"{self.gpus} GPUs cannot be.", "Give 1 or more, or 0 for all.")

    @property
    def argv(self) -> tuple[str, ...]:
        """The command; BadInput as of `check`."""
        self.check()
        return ("bash", "-c", SCRIPT, "nccl-quick", self.first, self.last, str(self.gpus))


def _bytes(size: str) -> int:
    found = _SIZE.fullmatch(size)
    if found is None:
        raise BadInput(f"{size} is no message size.", "Give a number of bytes such as 8, 512K, 1M or 1G.")
    return int(found[1]) << _UNITS[found[2]]
