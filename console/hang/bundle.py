"""All that is known of a hang in one archive, for a colleague or a support case, with secrets redacted as in logs."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from console.errors import BadInput, ConsoleError
from console.folders import make_private, state_folder, write_new_file
from console.hang.report import HangReport
from console.hang.report_lines import describe_analysis, format_report, report_to_json
from console.kube.find_job import find_job
from console.kube.watched_cluster import WatchedCluster
from console.logs.redact import REDACTED, is_confidential, redact
from console.scheduling.ranks import Rank, ranks

LOGS, LINES = 8, 5_000  # pods whose log is looked through, and lines at its end
READING = 20.0  # seconds for one log
KEPT = 30  # archives that were written unasked
_WORDS = ("NCCL", "Xid", "ProcessGroup", "Watchdog")


def bundle_folder(cluster: WatchedCluster) -> Path:
    """Where bundles are kept; those of a practice cluster go with it."""
    return (cluster.current_connection.target.cluster.practice_folder or state_folder()) / "hangs"


def bundle_name(job: str) -> str:
    return f"{job}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"


async def write_unasked_bundle(cluster: WatchedCluster, namespace: str, report: HangReport) -> HangReport:
    """Write it into a folder of which the newest KEPT stay; the report that says where, or why it is not written."""
    try:
        folder = bundle_folder(cluster) / "unasked"
        place = folder / bundle_name(report.job)
        await asyncio.to_thread(make_private, folder)
        await write_bundle(cluster, namespace, report, place)
        await asyncio.to_thread(_remove_old, folder)
        return replace(report, bundle=str(place))
    except (ConsoleError, OSError) as error:
        return replace(report, bundle=f"not written: {error}")


def _remove_old(folder: Path) -> None:
    every = sorted(folder.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    for path in every[:-KEPT]:
        path.unlink(missing_ok=True)


async def write_bundle(cluster: WatchedCluster, namespace: str, report: HangReport, place: Path) -> int:
    """Write the archive (.tar.gz), for this account only; its size in bytes. BadInput if the file is there."""
    if await asyncio.to_thread(lambda: place.expanduser().exists()):
        raise BadInput(f"{place} already exists.", "Choose another name.")
    every = ranks(find_job(cluster.fleet, namespace, report.job), cluster.fleet)
    suspects = {each.pod_rank for group in report.suspects for each in group.members}
    chosen = sorted(every, key=lambda rank: (rank.number not in suspects, rank.number))[:LOGS]
    lines = await asyncio.gather(*(_nccl_lines(cluster, rank) for rank in chosen))
    nodes = {rank.node for rank in every}
    files: dict[str, Any] = {
        "report.txt": "\n".join(format_report(report, stacks=True)),
        "report.json": report_to_json(report),
        "ras.txt": report.ras.text or f"{report.ras_problem}\n",
        "recorder.json": msgspec.to_builtins(report.dumps),
        "torch-analyser.txt": f"{describe_analysis(report)}\n\n{report.analysis.log if report.analysis else ''}",
        "nccl-lines.txt": "\n".join(line for each in lines for line in each),
        "nodes.json": [msgspec.to_builtins(node) for node in cluster.fleet.nodes.values() if node.name in nodes],
    }
    data = await asyncio.to_thread(_packed, report, files)
    await asyncio.to_thread(write_new_file, place, data)
    return len(data)


async def _nccl_lines(cluster: WatchedCluster, rank: Rank) -> list[str]:
    """The lines of a pod's log that NCCL, PyTorch's watchdog or the driver printed, or why there are none."""
    from console.logs.container_log import LogRequest, follow_log

    head = f"── pod {rank.number} {rank.name}"
    pod = rank.pod
    if pod is None:
        return [f"{head}: there is no such pod"]
    wanted = LogRequest(pod.namespace, pod.name, pod.main.name if pod.main else "", LINES, follow=False)
    found: list[str] = []
    try:
        async with (
            asyncio.timeout(READING),
            aclosing(follow_log(cluster.current_connection.client, wanted)) as printed,
        ):
            async for line in printed:
                if any(word in line.text for word in _WORDS):
                    found.append(line.text)
    except (ConsoleError, TimeoutError) as error:
        found.append(f"its log was not read to its end: {error or 'no answer'}")
    return [head, *found]


def _packed(report: HangReport, files: dict[str, Any]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, str):
                data = redact(content).encode("utf-8", "replace")
            else:
                data = msgspec.json.format(msgspec.json.encode(_redacted(content)), indent=2)
            entry = tarfile.TarInfo(f"{report.job}-hang/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(report.at), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue())


def _redacted(value: Any, name: str = "") -> Any:
    """Such a value without anything secret in its texts."""
    if isinstance(value, dict):
        return {key: _redacted(each, str(key)) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_redacted(each, name) for each in value]
    if not isinstance(value, str):
        return value
    return REDACTED if is_confidential(name, value) else redact(value)
