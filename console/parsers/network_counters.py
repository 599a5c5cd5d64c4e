"""Counters of network cards and NVLink, read again and again in a pod: what went over each in between.

    a4-counters 812.31                  seconds since the machine started; what follows was read then
    a4-rdma mlx5_0/1 RECEIVED SENT      port_rcv_data and port_xmit_data of the kernel: words of 4 bytes
    GPU 0: NVIDIA B200 (UUID: ...)      `nvidia-smi nvlink -gt d`
         Link 0: Data Tx: 5120 KiB

A rate needs two readings; where a counter is missing, was set back, or says N/A, it is not known.
"""

from __future__ import annotations

import re

from console.models.gpu_network import LinkRate
from console.parsers.lines import Lines

_AT = re.compile(r"a4-counters (\d{1,12}(?:\.\d{1,9})?)")
_RDMA = re.compile(r"a4-rdma (\S{1,80}) (\d{1,20}) (\d{1,20})")
_GPU = re.compile(r"GPU (\d{1,4}): ")
_LINK = re.compile(r"\s{0,9}Link \d{1,3}: Data (Tx|Rx): (\d{1,20}) KiB")
_WORD, _KIB = 4, 1024

_Counts = dict[str | int, tuple[int, int]]
"""Bytes in and out since some moment, by port or by index of the GPU."""


class NetworkCounters:
    """Reads on, a piece at a time; rates are those between the last two whole readings."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._before: tuple[float, _Counts] | None = None
        self._last: tuple[float, _Counts] | None = None
        self._at = 0.0
        self._begun: _Counts | None = None
        self._gpu: int | None = None

    def feed(self, data: bytes) -> None:
        """Read on."""
        for line in self._lines.add(data):
            self._line(line)

    def _line(self, line: str) -> None:
        if found := _AT.fullmatch(line.strip()):
            self._end()
            self._at, self._begun, self._gpu = float(found[1]), {}, None
        elif self._begun is None:
            return
        elif found := _RDMA.fullmatch(line.strip()):
            self._begun[found[1]] = int(found[2]) * _WORD, int(found[3]) * _WORD
        elif found := _GPU.match(line):
            self._gpu = int(found[1])
        elif (found := _LINK.fullmatch(line.rstrip())) and self._gpu is not None:
            received, sent = self._begun.get(self._gpu, (0, 0))
            more = int(found[2]) * _KIB
            self._begun[self._gpu] = (received + more, sent) if found[1] == "Rx" else (received, sent + more)
        elif not line.startswith((" ", "\t")):  # the GPUs' own table, which comes after
            self._end()

    def _end(self) -> None:
        if self._begun is not None:
            self._before, self._last, self._begun = self._last, (self._at, self._begun), None

    @property
    def rdma(self) -> tuple[LinkRate, ...]:
        """Every port that there is, whether or not its rate is known."""
        names = sorted(name for name in (self._last[1] if self._last else ()) if isinstance(name, str))
        return tuple(LinkRate(name, *self._rates(name)) for name in names)

    def nvlink(self, gpu: int) -> tuple[float | None, float | None]:
        """Bytes a second that came to a GPU and that it sent, over all its links."""
        return self._rates(gpu)

    def _rates(self, name: str | int) -> tuple[float | None, float | None]:
        if self._before is None or self._last is None:
            return None, None
        (began, before), (ended, last) = self._before, self._last
        if name not in before or name not in last or ended <= began:
            return None, None
        rates = [(new - old) / (ended - began) for old, new in zip(before[name], last[name], strict=True)]
        return (rates[0], rates[1]) if min(rates) >= 0 else (None, None)
