"""A hang or a slow rank in one archive, for a colleague or a support case, with secrets redacted as in logs."""

from __future__ import annotations

import asyncio
import gzip
import io
import re
import tarfile
import time
from collections import deque
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from console.errors import ConsoleError
from console.folders import check_new_file, make_private, state_folder, write_new_file
from console.kube.find_job import find_job
from console.kube.watched_cluster import WatchedCluster
from console.scheduling.pod_slots import PodSlot, pod_slots
from rankscope import (
    HangReport,
    SlowReport,
    describe_analysis,
    format_report,
    format_slow_report,
    report_to_json,
    slow_report_to_json,
)
from trainlog import redact_text, redact_tree

MAX_LOGS, MAX_LOG_LINES = 8, 5_000  # pods whose log is looked through, and lines at its end
BUNDLE_LOG_TIMEOUT = 20.0  # seconds for one log
LAST_LINES = 100  # of each log
MAX_UNASKED_BUNDLES = 30  # archives that were written unasked
_KEPT_LINE_WORDS = ("NCCL", "Xid", "ProcessGroup", "Watchdog")


def bundle_folder(cluster: WatchedCluster) -> Path:
    """The folder into which bundles are written: the practice cluster's own if connected to one."""
    return (cluster.current_connection.target.cluster.practice_folder or state_folder()) / "hangs"


def bundle_name(job: str) -> str:
    return f"{job}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"


async def write_automatic_bundle(cluster: WatchedCluster, namespace: str, report: HangReport) -> HangReport:
    """Write an automatic bundle, and delete the oldest ones; returns the report with the bundle's path or the error."""
    try:
        folder = bundle_folder(cluster) / "unasked"
        place = folder / bundle_name(report.job)
        await asyncio.to_thread(make_private, folder)
        await write_bundle(cluster, namespace, report, place)
        await asyncio.to_thread(_remove_old, folder)
        return replace(report, bundle=str(place))
    except (ConsoleError, OSError) as error:
        return replace(report, bundle=f"not written: {error}")


def find_automatic_bundle(cluster: WatchedCluster, job: str, since: float) -> Path | None:
    """The newest automatic bundle about this job's hang, made after `since` (epoch seconds); None if there is none."""
    name = re.compile(rf"{re.escape(job)}-\d{{8}}-\d{{6}}\.tar\.gz")
    with suppress(OSError):
        every = [each for each in (bundle_folder(cluster) / "unasked").iterdir() if name.fullmatch(each.name)]
        written = {each: each.stat().st_mtime for each in every}
        return max((each for each in every if written[each] >= since), key=lambda each: written[each], default=None)
    return None


def _remove_old(folder: Path) -> None:
    every = sorted(folder.glob("*.tar.gz"), key=lambda path: path.stat().st_mtime)
    for path in every[:-MAX_UNASKED_BUNDLES]:
        path.unlink(missing_ok=True)


async def write_bundle(cluster: WatchedCluster, namespace: str, report: HangReport | SlowReport, path: Path) -> int:
    """Write the bundle (.tar.gz, mode 0600) and return its size. Raises BadInput if the file exists."""
    await asyncio.to_thread(check_new_file, path)
    fleet = cluster.fleet
    jobset = find_job(fleet, namespace, report.job)
    every = pod_slots(jobset, fleet)
    suspects = _list_suspected_pods(report)
    chosen = sorted(every, key=lambda rank: (rank.number not in suspects, rank.number))[:MAX_LOGS]
    logs = await asyncio.gather(*(_read_log(cluster, rank, suspected=rank.number in suspects) for rank in chosen))
    nodes = {rank.node for rank in every}
    # The events of a node name it in place of a uid.
    of_nodes = (event for node in sorted(nodes) for event in fleet.events_by_object.get(node, ()))
    files = _list_report_files(namespace, report) | {
        "nccl-lines.txt": "".join(f"{line}\n" for each in logs for line in each.nccl_lines),
        "last-lines.txt": "".join(f"{line}\n" for each in logs for line in each.last_lines),
        "nodes.json": [msgspec.to_builtins(node) for node in fleet.nodes.values() if node.name in nodes],
        "events.json": [msgspec.to_builtins(event) for event in (*fleet.events_of(jobset), *of_nodes)],
    }
    data = await asyncio.to_thread(_pack_archive, report, files)
    await asyncio.to_thread(write_new_file, path, data)
    return len(data)


def _list_suspected_pods(report: HangReport | SlowReport) -> set[int]:
    """The indices of the pods with the ranks that the others wait for."""
    if isinstance(report, SlowReport):
        return {each.pod_index for each in report.slow if each.pod_index is not None}
    return {each.pod_rank for group in report.suspects for each in group.members}


def _list_report_files(namespace: str, report: HangReport | SlowReport) -> dict[str, Any]:
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(report.at))
    job = f"{report.job} in namespace {namespace}"
    if isinstance(report, SlowReport):
        head = f"{job}, measured on {when}"
        return {
            "report.txt": "\n".join([head, "", *format_slow_report(report), ""]),
            "report.json": slow_report_to_json(report),
        }
    head = f"{job}, inspected on {when}"
    return {
        "report.txt": "\n".join([head, "", *format_report(report, stacks=True), ""]),
        "report.json": report_to_json(report),
        "ras.txt": report.ras.text or f"{report.ras_problem}\n",
        "recorder.json": msgspec.to_builtins(report.dumps),
        "torch-analyser.txt": f"{describe_analysis(report)}\n\n{report.analysis.log if report.analysis else ''}",
    }


class _LogLines(NamedTuple):
    """A pod's log lines for the bundle: those of NCCL, PyTorch's watchdog and the driver, and the last ones."""

    nccl_lines: list[str]
    last_lines: list[str]


async def _read_log(cluster: WatchedCluster, slot: PodSlot, *, suspected: bool) -> _LogLines:
    from console.logs.container_log import LogRequest, follow_log

    head, pod = f"── pod {slot.number} {slot.name}{', for which the others wait' if suspected else ''}", slot.pod
    if pod is None:
        return _LogLines(*[[f"{head}: there is no such pod"]] * 2)
    wanted = LogRequest(pod.namespace, pod.name, pod.main.name if pod.main else "", MAX_LOG_LINES, follow=False)
    of_nccl, last = list[str](), deque[str](maxlen=LAST_LINES)
    try:
        async with (
            asyncio.timeout(BUNDLE_LOG_TIMEOUT),
            aclosing(follow_log(cluster.current_connection.client, wanted)) as printed,
        ):
            async for lines in printed:
                last += (line.text for line in lines)
                of_nccl += (line.text for line in lines if any(word in line.text for word in _KEPT_LINE_WORDS))
    except (ConsoleError, TimeoutError) as error:
        why = f"its log was not read to its end: {error or 'no answer'}"
        return _LogLines([head, *of_nccl, why], [head, *last, why])
    return _LogLines([head, *of_nccl], [head, *last])


def _pack_archive(report: HangReport | SlowReport, files: dict[str, Any]) -> bytes:
    packed, kind = io.BytesIO(), "slow" if isinstance(report, SlowReport) else "hang"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in files.items():
            if isinstance(content, str):
                data = redact_text(content).encode("utf-8", "replace")
            else:
                data = msgspec.json.format(msgspec.json.encode(redact_tree(content)), indent=2)
            entry = tarfile.TarInfo(redact_text(f"{report.job}-{kind}/{name}"))
            entry.size, entry.mtime, entry.mode = len(data), int(report.at), 0o600
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue())
