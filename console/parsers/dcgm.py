"""Metrics of NVIDIA's DCGM exporter, in the text format of Prometheus."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from console.models.gpu import Gpu

_SAMPLE = re.compile(r"DCGM_FI_(\w{1,60})\{(.{0,4000})\}\s+([-+]?[\d.]+(?:[eE][-+]?\d+)?|NaN)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_FIELDS = {
    "DEV_GPU_UTIL": "utilization", "DEV_FB_USED": "memory_used", "DEV_GPU_TEMP": "temperature",
    "DEV_POWER_USAGE": "power", "DEV_SM_CLOCK": "clock", "DEV_ECC_DBE_VOL_TOTAL": "ecc_uncorrected",
    "DEV_ECC_SBE_VOL_TOTAL": "ecc_corrected", "DEV_XID_ERRORS": "xid", "DEV_CLOCK_THROTTLE_REASONS": "throttle",
    "PROF_NVLINK_RX_BYTES": "nvlink_received", "PROF_NVLINK_TX_BYTES": "nvlink_sent",
}  # fmt: skip
_WHOLE = ("ecc_uncorrected", "ecc_corrected", "xid", "throttle")
_TENSOR_ACTIVITY = "PROF_GR_ENGINE_ACTIVE"
_DIGITS = 6
_BLANK = 1 << 46
"""Numbers from here on are DCGM's way of saying that it has none."""


def parse_dcgm(text: str) -> tuple[Gpu, ...]:
    """The GPUs of a node, by their index on it. Memory is in MiB; its total is used and free and reserved together."""
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
    return tuple(_gpu(index, *names[index], found.get(index, {})) for index in sorted(names))


def _gpu(index: int, name: str, bus: str, pod: str, values: dict[str, float]) -> Gpu:
    known: dict[str, Any] = {field: values[key] for key, field in _FIELDS.items() if key in values}
    known |= {field: int(known[field]) for field in _WHOLE if field in known}
    gpu = Gpu(index, name, bus=bus, pod=pod, **known)
    parts = [values[key] for key in ("DEV_FB_USED", "DEV_FB_FREE", "DEV_FB_RESERVED") if key in values]
    if "DEV_FB_USED" in values and "DEV_FB_FREE" in values:
        gpu = replace(gpu, memory_total=sum(parts))
    if gpu.utilization is None and _TENSOR_ACTIVITY in values:
        gpu = replace(gpu, utilization=100 * values[_TENSOR_ACTIVITY])
    return gpu
