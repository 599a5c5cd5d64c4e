"""Readings of nvidia-smi: its table, and the CSV of `--query-gpu`, once or again and again."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from console.models.gpu import Gpu
from console.parsers.lines import Lines
from console.parsers.training_values import count

_FIRST = re.compile(
    r"\|\s{1,9}(\d{1,4})\s{1,9}(\S.{0,80}?)\s{1,40}(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f:.]{7,20})\s+(?:On|Off|N/A)\s*\|\s*(\S+)"
)
_SECOND = re.compile(r"\|\s*\S+\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)")
_NUMBER = re.compile(r"([-+]?\d{1,15}(?:\.\d{1,9})?)\s{0,2}(?:%|MiB|MHz|W|C)?")
_BITS = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_FIELDS = {
    "utilization.gpu": "utilization", "memory.used": "memory_used", "memory.total": "memory_total",
    "temperature.gpu": "temperature", "power.draw": "power", "power.draw.instant": "power",
    "power.limit": "power_limit", "enforced.power.limit": "power_limit", "clocks.sm": "clock",
    "clocks.current.sm": "clock", "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.corrected.volatile.total": "ecc_corrected", "clocks.max.sm": "clock_max",
}  # fmt: skip
"""Columns of the CSV that are read, besides index, name and bus."""


class NvidiaSmiParser:
    """Reads any number of reports, a piece at a time; of each GPU the last reading counts."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._columns: list[str] = []
        self._begun: Gpu | None = None
        self._gpus: dict[int, Gpu] = {}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        """All GPUs, as last read."""
        return tuple(self._gpus[index] for index in sorted(self._gpus))

    def feed(self, data: bytes) -> list[Gpu]:
        """Reads on; the new readings."""
        return [gpu for line in self._lines.add(data) if (gpu := self._line(line))]

    def close(self) -> list[Gpu]:
        """Reads what is left without a line end; the new readings."""
        return [gpu for line in self._lines.end() if (gpu := self._line(line))]

    def _line(self, line: str) -> Gpu | None:
        gpu = self._table(line) if line.lstrip().startswith("|") else self._csv(line) if "," in line else None
        if gpu:
            self._gpus[gpu.index] = gpu
        return gpu

    def _table(self, line: str) -> Gpu | None:
        """Two lines of the table make one reading."""
        if found := _FIRST.search(line):
            index, name, bus, ecc = found.groups()
            self._begun = Gpu(int(index), name, bus=bus, ecc_uncorrected=count(ecc))
            return None
        begun, self._begun = self._begun, None
        found = _SECOND.search(line) if begun else None
        if begun is None or found is None:
            return None
        temperature, power, limit, used, total, utilization = (_number(each) for each in found.groups())
        return replace(
            begun,
            temperature=temperature,
            power=power,
            power_limit=limit,
            memory_used=used,
            memory_total=total,
            utilization=utilization,
        )

    def _csv(self, line: str) -> Gpu | None:
        cells = [cell.strip() for cell in line.split(",")]
        names = [cell.partition(" [")[0] for cell in cells]
        if "index" in names:
            self._columns = names
            return None
        if len(cells) != len(self._columns):
            return None
        row = dict(zip(self._columns, cells, strict=True))
        index = count(row["index"])
        if index is None:
            return None
        values: dict[str, Any] = {field: _number(row[name]) for name, field in _FIELDS.items() if name in row}
        recovery = row.get("gpu_recovery_action", "")
        return Gpu(
            index,
            row.get("name", row.get("gpu_name", "")),
            bus=row.get("pci.bus_id", row.get("gpu_bus_id", "")),
            ecc_uncorrected=_whole(values.pop("ecc_uncorrected", None)),
            ecc_corrected=_whole(values.pop("ecc_corrected", None)),
            throttle=_bits(row.get("clocks_event_reasons.active", row.get("clocks_throttle_reasons.active", ""))),
            recovery="" if recovery.strip("[]") in ("None", "N/A") else recovery,
            **values,
        )


def _whole(number: float | None) -> int | None:
    return int(number) if number is not None else None


def _bits(text: str) -> int | None:
    return int(text, 16) if _BITS.fullmatch(text) else None


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found.group(1)) if found else None


def parse_nvidia_smi(data: bytes) -> tuple[Gpu, ...]:
    """The GPUs in a whole report."""
    parser = NvidiaSmiParser()
    parser.feed(data)
    parser.close()
    return parser.gpus
