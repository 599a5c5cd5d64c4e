"""The DCGM exporter of a practice node: Prometheus metrics of its GPUs by pod, on port 9400.

The values are those of nvidia-smi in the pods, so that both sources agree. Names and labels are those of the exporter
that GKE runs: DCGM_FI_DEV_…{gpu,UUID,pci_bus_id,device,modelName,Hostname,container,namespace,pod}.
"""

from __future__ import annotations

import asyncio
import csv
import io
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from practice.node.fake_binaries import activity_of, faulty_gpu, gpu_uuid
from practice.objects.resources import PODS
from practice.programs.hangs import quiet_gpu

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from practice.controllers.kubelet import Kubelets

PORT = 9400
IMAGE = "dcgm-exporter"  # what the name of its image contains
GPU, GPUS = "nvidia.com/gpu", 8
_READINGS = Path(__file__).parent.parent / "data" / "nvidia_smi.awk"
_XID = 94  # a contained, uncorrectable memory error
_TOTAL = 183359
_FIELDS = (
    "index,name,pci.bus_id,utilization.gpu,memory.used,temperature.gpu,power.draw,clocks.sm,"
    "ecc.errors.uncorrected.volatile.total,ecc.errors.corrected.volatile.total"
)
_METRICS = (
    ("DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz)."),
    ("DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C)."),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W)."),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %)."),
    ("DCGM_FI_DEV_FB_FREE", "gauge", "Framebuffer memory free (in MiB)."),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB)."),
    ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors."),
    ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors."),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", "Value of the last XID error encountered."),
    ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active."),
)


@dataclass(frozen=True, slots=True)
class GpuTenant:
    """A pod that uses GPUs of the node; tenants get GPU indexes in order."""

    namespace: str
    pod: str
    container: str
    gpus: int
    activity: str
    quiet: int | None  # local rank whose GPU waits for nothing in a hang
    sick: int | None
    seed: int


def list_tenants(kubelets: Kubelets, node: str) -> list[GpuTenant]:
    """Return the pods that use GPUs of a node, oldest first."""
    found = []
    for pod in kubelets.storage.list(PODS):
        spec, meta = pod["spec"], pod["metadata"]
        gpus = sum(int((each.get("resources", {}).get("limits") or {}).get(GPU, 0)) for each in spec["containers"])
        if spec.get("nodeName") != node or not gpus or pod["status"].get("phase") != "Running":
            continue
        run = kubelets.find_container(meta["namespace"], meta["name"], "")
        place = run.place
        doing, sick = (activity_of(place), faulty_gpu(place)) if place else ("idle", None)
        quiet = quiet_gpu(place, doing) if place else None
        found.append((meta["creationTimestamp"], GpuTenant(
            meta["namespace"], meta["name"], run.name, gpus, doing, quiet, sick, place.rank if place else 0,
        )))  # fmt: skip
    return [tenant for _, tenant in sorted(found, key=lambda each: each[0])]


@dataclass(frozen=True, slots=True)
class _GpuReading:
    labels: str
    values: tuple[str, ...]  # in the order of the metrics


async def metrics_page(node: str, tenants: Sequence[GpuTenant]) -> str:
    readings: list[_GpuReading] = []
    for tenant in tenants:
        readings += await _read_tenant(node, tenant, len(readings))
    if len(readings) < GPUS:
        nobody = GpuTenant("", "", "", GPUS - len(readings), "idle", None, None, len(node))
        readings += await _read_tenant(node, nobody, len(readings))
    lines = []
    for place, (name, kind, help_) in enumerate(_METRICS):
        lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
        lines += [f"{name}{{{each.labels}}} {each.values[place]}" for each in readings]
    return "\n".join([*lines, ""])


async def _read_tenant(node: str, tenant: GpuTenant, first: int) -> list[_GpuReading]:
    command = [
        "awk", "-v", f"fields=--query-gpu={_FIELDS}", "-v", f"doing={tenant.activity}", "-v", f"gpus={tenant.gpus}",
        "-v", f"stuck={'' if tenant.quiet is None else tenant.quiet}", "-v", f"seed={tenant.seed}",
        "-v", f"sick={'' if tenant.sick is None else tenant.sick}", "-f", str(_READINGS),
    ]  # fmt: skip
    # In a thread: who asked may go at any moment, and a process of the loop would be left to nobody.
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
    rows = list(csv.reader(io.StringIO(done.stdout), skipinitialspace=True))[1:]
    return [_parse_reading(node, tenant, first + int(row[0]), row) for row in rows]


def _parse_reading(node: str, tenant: GpuTenant, gpu: int, row: list[str]) -> _GpuReading:
    local, name = int(row[0]), row[1]
    use, used, heat, power, clock, double, single = (float(cell.split()[0]) for cell in row[3:])
    labels = {
        "gpu": gpu,
        "UUID": gpu_uuid(node, gpu),
        "pci_bus_id": f"00000000:{15 + 16 * gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": name,
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": "580.95.05",
    }
    if tenant.pod:
        labels |= {"container": tenant.container, "namespace": tenant.namespace, "pod": tenant.pod}
    xid = _XID if tenant.sick == local else 0
    values = (
        f"{clock:.0f}",
        f"{heat:.0f}",
        f"{power:.6f}",
        f"{use:.0f}",
        f"{_TOTAL - used:.0f}",
        f"{used:.0f}",
        f"{single:.0f}",
        f"{double:.0f}",
        f"{xid}",
        f"{use / 100:.6f}",
    )
    return _GpuReading(",".join(f'{key}="{value}"' for key, value in labels.items()), values)


async def serve_metrics(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, write: Callable[[], Awaitable[str]]
) -> None:
    """Answer one HTTP request with the metrics page, or 404."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split()[1].partition("?")[0]
        found = path == "/metrics"
        body = (await write() if found else "404 page not found\n").encode()
        status = "200 OK" if found else "404 Not Found"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            + body
        )
        await writer.drain()
    finally:  # also where the client leaves before it has its answer
        writer.close()
