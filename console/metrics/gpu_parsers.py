"""Parses nvidia-smi's table and CSV, the DCGM exporter's metrics, and RDMA and NVLink counters.

The counters are printed by a script in the pod:

    a4-counters 812.31                  seconds since the machine started; what follows was read then
    a4-rdma mlx5_0/1 RECEIVED SENT      port_rcv_data and port_xmit_data of the kernel: words of 4 bytes
    GPU 0: NVIDIA B200 (UUID: ...)      `nvidia-smi nvlink -gt d`
         Link 0: Data Tx: 5120 KiB

A rate needs two readings; where a counter is missing, was set back, or says N/A, it is not known.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from console.logs.line_splitter import TextLineSplitter
from console.metrics.gpu_metrics import Gpu, LinkRate
from console.metrics.training.values import parse_count

_FIRST = re.compile(
    r"\|\s{1,9}(\d{1,4})\s{1,9}(\S.{0,80}?)\s{1,40}(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f:.]{7,20})\s+(?:On|Off|N/A)\s*\|\s*(\S+)"
)
_SECOND = re.compile(r"\|\s*\S+\s+(\S+)\s+\S+\s+(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)\s*/\s*(\S+)\s*\|\s*(\S+)")
_NUMBER = re.compile(r"([-+]?\d{1,15}(?:\.\d{1,9})?)\s{0,2}(?:%|MiB|MHz|W|C)?")
_BITS = re.compile(r"0x[0-9A-Fa-f]{1,16}")
_FIELDS = {  # columns of the CSV that are read, besides index, name and bus
    "utilization.gpu": "utilization", "memory.used": "memory_used", "memory.total": "memory_total",
    "temperature.gpu": "temperature", "power.draw": "power", "power.draw.instant": "power",
    "power.limit": "power_limit", "enforced.power.limit": "power_limit", "clocks.sm": "clock",
    "clocks.current.sm": "clock", "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "ecc.errors.corrected.volatile.total": "ecc_corrected", "clocks.max.sm": "clock_max",
}  # fmt: skip


class NvidiaSmiParser:
    """Parses any number of nvidia-smi reports, fed in pieces; the last reading of a GPU counts."""

    def __init__(self) -> None:
        self._lines = TextLineSplitter()
        self._columns: list[str] = []
        self._begun: Gpu | None = None
        self._gpus: dict[int, Gpu] = {}

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return tuple(self._gpus[index] for index in sorted(self._gpus))

    def feed(self, data: bytes) -> list[Gpu]:
        return [gpu for line in self._lines.feed(data) if (gpu := self._parse_line(line))]

    def close(self) -> list[Gpu]:
        """Parse an unterminated last line; returns the new readings."""
        return [gpu for line in self._lines.flush() if (gpu := self._parse_line(line))]

    def _parse_line(self, line: str) -> Gpu | None:
        gpu = (
            self._parse_table_line(line)
            if line.lstrip().startswith("|")
            else self._parse_csv_line(line)
            if "," in line
            else None
        )
        if gpu:
            self._gpus[gpu.index] = gpu
        return gpu

    def _parse_table_line(self, line: str) -> Gpu | None:
        """Parse a line of the table; returns a reading with the second line of each GPU."""
        if found := _FIRST.search(line):
            index, name, bus, ecc = found.groups()
            self._begun = Gpu(int(index), name, bus=bus, ecc_uncorrected=parse_count(ecc))
            return None
        begun, self._begun = self._begun, None
        found = _SECOND.search(line) if begun else None
        if begun is None or found is None:
            return None
        temperature, power, limit, used, total, utilization = (_parse_number(each) for each in found.groups())
        return replace(
            begun,
            temperature=temperature,
            power=power,
            power_limit=limit,
            memory_used=used,
            memory_total=total,
            utilization=utilization,
        )

    def _parse_csv_line(self, line: str) -> Gpu | None:
        cells = [cell.strip() for cell in line.split(",")]
        names = [cell.partition(" [")[0] for cell in cells]
        if "index" in names:
            self._columns = names
            return None
        if len(cells) != len(self._columns):
            return None
        row = dict(zip(self._columns, cells, strict=True))
        index = parse_count(row["index"])
        if index is None:
            return None
        values: dict[str, Any] = {field: _parse_number(row[name]) for name, field in _FIELDS.items() if name in row}
        recovery = row.get("gpu_recovery_action", "")
        throttle = row.get("clocks_event_reasons.active", row.get("clocks_throttle_reasons.active", ""))
        return Gpu(
            index,
            row.get("name", row.get("gpu_name", "")),
            bus=row.get("pci.bus_id", row.get("gpu_bus_id", "")),
            ecc_uncorrected=_to_int(values.pop("ecc_uncorrected", None)),
            ecc_corrected=_to_int(values.pop("ecc_corrected", None)),
            throttle=int(throttle, 16) if _BITS.fullmatch(throttle) else None,
            recovery="" if recovery.strip("[]") in ("None", "N/A") else recovery,
            **values,
        )


def _to_int(number: float | None) -> int | None:
    return int(number) if number is not None else None


def _parse_number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return float(found.group(1)) if found else None


def parse_nvidia_smi(data: bytes) -> tuple[Gpu, ...]:
    parser = NvidiaSmiParser()
    parser.feed(data)
    parser.close()
    return parser.gpus


_SAMPLE = re.compile(r"DCGM_FI_(\w{1,60})\{(.{0,4000})\}\s+([-+]?[\d.]+(?:[eE][-+]?\d+)?|NaN)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_DCGM_FIELDS = {
    "DEV_GPU_UTIL": "utilization", "DEV_FB_USED": "memory_used", "DEV_GPU_TEMP": "temperature",
    "DEV_POWER_USAGE": "power", "DEV_SM_CLOCK": "clock", "DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected",
    "DEV_ECC_SBE_VOL_TOTAL": "ecc_corrected", "DEV_XID_ERRORS": "xid", "DEV_CLOCK_THROTTLE_REASONS": "throttle",
    "PROF_NVLINK_RX_BYTES": "nvlink_received", "PROF_NVLINK_TX_BYTES": "nvlink_sent",
}  # fmt: skip
_WHOLE = ("ecc_uncorrected", "ecc_corrected", "xid", "throttle")
_TENSOR_ACTIVITY = "PROF_GR_ENGINE_ACTIVE"
_DIGITS = 6
_BLANK = 1 << 46  # numbers from here on are DCGM's way of saying that it has none


def parse_dcgm(text: str) -> tuple[Gpu, ...]:
    """The GPUs of a node by index. Total memory (MiB) is the sum of used, free and reserved memory."""
    found: dict[int, dict[str, float]] = {}
    names: dict[int, tuple[str, str, str]] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        labels = dict(_LABEL.findall(sample[2])) if sample else {}
        if sample is None or not labels.get("gpu", "").isdecimal() or sample[3] == "NaN":
            continue
        try:
            gpu, value = int(labels["gpu"][:_DIGITS]), float(sample[3])
        except ValueError:
            continue
        pod = f"{labels['namespace']}/{labels['pod']}" if labels.get("pod") and labels.get("namespace") else ""
        names[gpu] = labels.get("modelName", ""), labels.get("pci_bus_id", ""), pod
        if abs(value) < _BLANK:
            found.setdefault(gpu, {})[sample[1]] = value
    return tuple(_make_gpu(index, *names[index], found.get(index, {})) for index in sorted(names))


def _make_gpu(index: int, name: str, bus: str, pod: str, values: dict[str, float]) -> Gpu:
    known: dict[str, Any] = {field: values[key] for key, field in _DCGM_FIELDS.items() if key in values}
    known |= {field: int(known[field]) for field in _WHOLE if field in known}
    gpu = Gpu(index, name, bus=bus, pod=pod, **known)
    parts = [values[key] for key in ("DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED") if key in values]
    if "DEV_FB_USED" in values and "DEV_FB_FREE" in values:
        gpu = replace(gpu, memory_total=sum(parts))
    if gpu.utilization is None and _TENSOR_ACTIVITY in values:
        gpu = replace(gpu, utilization=100 * values[_TENSOR_ACTIVITY])
    return gpu


_AT = re.compile(r"a4-counters (\d{1,12}(?:\.\d{1,9})?)")
_RDMA = re.compile(r"a4-rdma (\S{1,80}) (\d{1,20}) (\d{1,20})")
_GPU = re.compile(r"GPU (\d{1,4}): ")
_LINK = re.compile(r"\s{0,9}Link \d{1,3}: Data (Tx|Rx): (\d{1,20}) KiB")
_WORD, _KIB = 4, 1024

_Counts = dict[str | int, tuple[int, int]]  # bytes in and out since some moment, by port or by index of the GPU


class NetworkCounters:
    """Parses counters, fed in pieces; rates are computed between the last two complete readings."""

    def __init__(self) -> None:
        self._lines = TextLineSplitter()
        self._before: tuple[float, _Counts] | None = None
        self._last: tuple[float, _Counts] | None = None
        self._at = 0.0
        self._begun: _Counts | None = None
        self._gpu: int | None = None

    def feed(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            self._parse_line(line)

    def _parse_line(self, line: str) -> None:
        if found := _AT.fullmatch(line.strip()):
            self._end_sample()
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
            self._end_sample()

    def _end_sample(self) -> None:
        if self._begun is not None:
            self._before, self._last, self._begun = self._last, (self._at, self._begun), None

    @property
    def rdma_rates(self) -> tuple[LinkRate, ...]:
        """All RDMA ports, also those whose rate is unknown."""
        names = sorted(name for name in (self._last[1] if self._last else ()) if isinstance(name, str))
        return tuple(LinkRate(name, *self._rates_of(name)) for name in names)

    def nvlink_rates(self, gpu: int) -> tuple[float | None, float | None]:
        """Bytes per second (received, sent) of a GPU over all its NVLinks."""
        return self._rates_of(gpu)

    def _rates_of(self, name: str | int) -> tuple[float | None, float | None]:
        if self._before is None or self._last is None:
            return None, None
        (began, before), (ended, last) = self._before, self._last
        if name not in before or name not in last or ended <= began:
            return None, None
        rates = [(new - old) / (ended - began) for old, new in zip(before[name], last[name], strict=True)]
        return (rates[0], rates[1]) if min(rates) >= 0 else (None, None)
