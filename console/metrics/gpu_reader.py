"""Reads the GPUs of all ranks of a job continuously: nvidia-smi by exec, one stream per pod, or the DCGM exporter.

A pod whose nvidia-smi cannot be run, and every pod in read-only mode, is read from the DCGM exporter of its node where
the cluster has one, through the API server's proxy.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from console.errors import ConsoleError, NotFound, ProgramFailed, Refused, Unreadable
from console.kube.actions import pod_path
from console.kube.find_job import find_job
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.gpu_metrics import DCGM, NVIDIA_SMI, Gpu, GpuBoard, GpuSource, PodGpus
from console.scheduling.pod_slots import PodSlot, pod_slots

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod
    from console.kube.watched_cluster import WatchedCluster

    ReadingCallback = Callable[[PodGpus], None]

READINGS_OF_ONE_LOOK = 2  # readings that one look takes: what goes over a network is the difference of two
MAX_PODS_READ = 128  # pods that are read at the same time; those beyond are named
READ_SECONDS = 2.0  # seconds between two readings
MIN_BOARD_SECONDS = 0.25  # seconds between two boards at least
POD_RETRY_SECONDS = 10.0  # seconds until a pod that failed is tried again
MAX_REPORT_BYTES = 256 << 10  # bytes from one report of nvidia-smi to the next: 8 GPUs and 16 network cards fill 10 KiB
MAX_EARLY_READINGS = 10  # readings of a GPU that may come sooner than asked for; a pod that prints more is stopped
REPORT_FLOW_SECONDS = 6.0  # seconds from the first counter to the report after it, where there is one look only
ROUNDS_PER_STREAM = 900  # readings until a stream is opened anew: none runs for ever in a pod that nobody watches
DCGM_PORT, DCGM_PORT_NAME = 9400, "metrics"  # the usual port, and the name that counts where a pod has it
MIN_DCGM_SECONDS = 5.0  # seconds between two readings of an exporter at least: it looks at the GPUs no oftener itself
_QUERIED_FIELDS = (
    "index,name,pci.bus_id,utilization.gpu,memory.used,memory.total,temperature.gpu,power.draw,power.limit,clocks.sm,"
    "clocks.max.sm,ecc.errors.uncorrected.volatile.total"
)
_FIELDS_OF_NEWER_DRIVERS = "ecc.errors.corrected.volatile.total,clocks_event_reasons.active,gpu_recovery_action"
_READ_GPUS_SCRIPT = f"""
command -v nvidia-smi >/dev/null || {{ echo "there is no nvidia-smi in this image" >&2; exit 44; }}
fields={_QUERIED_FIELDS},{_FIELDS_OF_NEWER_DRIVERS}
nvidia-smi --query-gpu=$fields --format=csv >/dev/null 2>&1 || fields={_QUERIED_FIELDS}
n=0
while [ $n -lt "$1" ]; do
    read -r up idle </proc/uptime && echo "a4-counters $up"
    for port in "${{A4_RDMA:-/sys/class/infiniband}}"/*/ports/*; do
        [ -r "$port/counters/port_rcv_data" ] || continue
        card=${{port%/ports/*}}
        echo "a4-rdma ${{card##*/}}/${{port##*/}}" \
            "$(cut -c 1-20 "$port/counters/port_rcv_data") $(cut -c 1-20 "$port/counters/port_xmit_data")"
    done
    nvidia-smi nvlink -gt d 2>/dev/null
    nvidia-smi --query-gpu=$fields --format=csv || exit 1
    n=$((n + 1))
    [ $n -ge "$1" ] || sleep "$2"
done
"""


class GpuReader:
    def __init__(self, cluster: WatchedCluster) -> None:
        self._cluster = cluster
        self._ports: dict[str, int] = {}

    def exporter_of(self, namespace: str, name: str) -> str:
        """Name of a DCGM exporter pod on a node of the job; empty if none is visible."""
        slots = self._ranks_of_job(namespace, name) if self._cluster.fleet.exporters_by_node else ()
        nodes = {slot.node for slot in slots if slot.node}
        found = next((pod for node in nodes if (pod := self._find_exporter(node))), None)
        return found.name if found else ""

    async def follow_boards(
        self, namespace: str, name: str, *, interval: float = READ_SECONDS, source: GpuSource = ""
    ) -> AsyncGenerator[GpuBoard, None]:
        """Yield the job's GPU readings as they change, also across pod replacements; the first one is empty.

        `source`: the only source; by default nvidia-smi, else the exporter if nvidia-smi cannot be run. A failure in
        one pod is on the board. Raises NotFound if there is no such job.
        """
        self._ranks_of_job(namespace, name)
        readings: dict[int, PodGpus] = {}
        woken = asyncio.Event()
        tasks: dict[str, asyncio.Task[None]] = {}

        def store_reading(pod_gpus: PodGpus) -> None:
            readings[pod_gpus.rank] = pod_gpus
            woken.set()

        try:
            while True:
                self._sync_reader_tasks(namespace, name, tasks, readings, _ReadOptions(store_reading, interval, source))
                yield GpuBoard(tuple(readings[rank] for rank in sorted(readings)))
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval):
                        await woken.wait()
                woken.clear()
                await asyncio.sleep(MIN_BOARD_SECONDS)
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def read_once(self, namespace: str, name: str, *, source: GpuSource = "") -> GpuBoard:
        """One reading of all ranks. Raises NotFound if no pod runs, Refused or a subclass if none may be read."""
        readings: list[PodGpus] = []
        refusals: list[Refused] = []
        running = self._running_ranks(namespace, name)
        if not running:
            raise NotFound(f"No pod of {name} runs: there is no GPU to read.", f"a4 why {name}")
        room = asyncio.Semaphore(32)

        async def read_rank(slot: PodSlot) -> None:
            async with room:
                found: list[PodGpus] = []
                await self._read_rank(
                    slot, _ReadOptions(found.append, 1.0, source, refusals.append), rounds=READINGS_OF_ONE_LOOK
                )
                readings.append(found[-1])

        await asyncio.gather(*map(read_rank, running))
        if len(refusals) == len(running) and not any(each.gpus for each in readings):
            raise refusals[0]
        return GpuBoard(tuple(sorted(readings, key=lambda each: each.rank)))

    def _ranks_of_job(self, namespace: str, name: str) -> tuple[PodSlot, ...]:
        fleet = self._cluster.fleet
        return pod_slots(find_job(fleet, namespace, name), fleet)

    def _running_ranks(self, namespace: str, name: str) -> list[PodSlot]:
        return [rank for rank in self._ranks_of_job(namespace, name) if rank.pod and rank.phase == "Running"]

    def _sync_reader_tasks(
        self,
        namespace: str,
        name: str,
        tasks: dict[str, asyncio.Task[None]],
        readings: dict[int, PodGpus],
        reader: _ReadOptions,
    ) -> None:
        """Keep one stream for each running pod; drop the streams and readings of pods that are gone."""
        with suppress(NotFound):
            wanted = self._running_ranks(namespace, name)
            uids = {rank.pod.uid: rank for rank in wanted if rank.pod}
            for uid in set(tasks) - set(uids):
                tasks.pop(uid).cancel()
            for number in set(readings) - {rank.number for rank in wanted}:
                del readings[number]
            for place, (uid, rank) in enumerate(uids.items()):
                if place >= MAX_PODS_READ:
                    problem = f"Only {MAX_PODS_READ} pods are read at a time."
                    readings[rank.number] = PodGpus(rank.number, rank.name, rank.node, problem=problem)
                elif uid not in tasks:
                    tasks[uid] = asyncio.create_task(self._read_until_cancelled(rank, reader), name=f"gpus:{rank.name}")

    async def _read_until_cancelled(self, slot: PodSlot, reader: _ReadOptions) -> None:
        while True:
            if not await self._read_rank(slot, reader, rounds=ROUNDS_PER_STREAM):
                await asyncio.sleep(POD_RETRY_SECONDS)

    async def _read_rank(self, slot: PodSlot, reader: _ReadOptions, *, rounds: int) -> bool:
        """Read a pod `rounds` times; returns whether anything was read, else its reading has the reason."""
        assert slot.pod is not None
        reading = PodGpus(slot.number, slot.name, slot.node)
        exporter = self._find_exporter(slot.node) if reader.source != NVIDIA_SMI else None
        problem = "" if exporter or reader.source != DCGM else "There is no DCGM exporter on this node."
        if reader.source != DCGM and not self._cluster.read_only:
            try:
                await self._read_nvidia_smi(slot.pod, reading, reader, rounds)
            except ConsoleError as error:
                problem = error.message
                if isinstance(error, Refused):
                    reader.on_refused(error)
            else:
                return True
        if exporter is not None:
            try:
                await self._read_dcgm(slot, exporter, reading, reader, 1 if rounds == READINGS_OF_ONE_LOOK else rounds)
            except ConsoleError as error:
                problem = problem or error.message
            else:
                return True
        problem = problem or "In read-only mode GPUs are read from a DCGM exporter, and this node has none."
        reader.on_reading(replace(reading, problem=problem if problem.endswith(".") else f"{problem}."))
        return False

    async def _read_nvidia_smi(self, pod: Pod, pod_gpus: PodGpus, reader: _ReadOptions, round_count: int) -> None:
        """Follow nvidia-smi in a pod. Raises ProgramFailed without any GPU, Unreadable for too much, Unreachable."""
        from console.kube import exec as executing
        from console.metrics.gpu_metrics import NetworkCounters, NvidiaSmiParser

        parser, counters, reported, began = NvidiaSmiParser(), NetworkCounters(), 0, time.monotonic()

        def parse_output(channel: int, data: bytes) -> None:
            nonlocal reported
            output.add(channel, data)
            if channel == 2:
                return
            counters.feed(data)
            if found := parser.feed(data):
                reported += len(found)
                if reported > (MAX_EARLY_READINGS + 2 * (time.monotonic() - began) / reader.every) * len(parser.gpus):
                    raise Unreadable(f"Pod {pod.name} prints readings without a pause: nvidia-smi was stopped.")
                output.reset()
                rates = [(gpu, *counters.rates_of(gpu.index)) for gpu in parser.gpus]
                gpus = tuple(replace(gpu, nvlink_received=received, nvlink_sent=sent) for gpu, received, sent in rates)
                reader.on_reading(
                    replace(pod_gpus, gpus=gpus, rdma=counters.rdma_rates, at=SERVER_CLOCK.now(), source=NVIDIA_SMI)
                )

        client = self._cluster.connection_for_change(f"run nvidia-smi in pod {pod.name}").client
        argv = ("sh", "-c", executing.ANNOUNCE_START + _READ_GPUS_SCRIPT, "sh", str(round_count), f"{reader.every:g}")
        limit = 30.0 + round_count * (reader.every + 5.0)
        container = pod.main.name if pod.main else ""
        flow = REPORT_FLOW_SECONDS if round_count == READINGS_OF_ONE_LOOK else None
        async with executing.limit_output(
            pod.name, max_bytes=MAX_REPORT_BYTES, limit=limit, flow=flow, begins=executing.START_TIMEOUT
        ) as output:
            code = await executing.run(
                client,
                pod.namespace,
                pod.name,
                argv,
                parse_output,
                container=container,
                action=f"run nvidia-smi in pod {pod.name}",
            )
        if code or not reported:
            complaint = output.errors.decode(errors="replace").strip().splitlines()
            raise ProgramFailed(complaint[-1] if complaint else f"nvidia-smi ended with exit code {code}", code=code)

    def _find_exporter(self, node: str) -> Pod | None:
        every = self._cluster.fleet.exporters_by_node.get(node, ())
        return next((pod for pod in every if pod.phase == "Running"), None)

    async def _read_dcgm(
        self, slot: PodSlot, exporter: Pod, pod_gpus: PodGpus, reader: _ReadOptions, round_count: int
    ) -> None:
        """Read an exporter `round_count` times; only the rank's GPUs if the metrics name pods, else the node's."""
        assert slot.pod is not None
        key = "/".join(slot.pod.key)
        for number in range(round_count):
            gpus = await self.scrape_exporter(exporter)
            own = tuple(gpu for gpu in gpus if gpu.pod == key)
            reader.on_reading(replace(pod_gpus, gpus=own or gpus, at=SERVER_CLOCK.now(), source=DCGM))
            if number + 1 < round_count:
                await asyncio.sleep(max(reader.every, MIN_DCGM_SECONDS))

    async def scrape_exporter(self, exporter: Pod) -> tuple[Gpu, ...]:
        from console.metrics.gpu_metrics import parse_dcgm

        port = self._ports.get(exporter.uid) or await self._exporter_port(exporter)
        path = f"{pod_path(exporter.namespace, exporter.name)}:{port}/proxy/metrics"
        client = self._cluster.current_connection.client
        raw = await client.request("GET", path, action=f"read {exporter.name}", accept="text/plain", silence=10.0)
        gpus = parse_dcgm(raw.decode(errors="replace"))
        if not gpus:
            raise NotFound(f"The DCGM exporter {exporter.name} reports no GPU.")
        return gpus

    async def _exporter_port(self, exporter: Pod) -> int:
        path, client = pod_path(exporter.namespace, exporter.name), self._cluster.current_connection.client
        body = await client.request("GET", path, action=f"read pod {exporter.name}")
        try:
            ports = [port for each in json.loads(body)["spec"]["containers"] for port in each.get("ports") or ()]
            named = (int(port["containerPort"]) for port in ports if port.get("name") == DCGM_PORT_NAME)
            self._ports[exporter.uid] = port = next(named, DCGM_PORT)
        except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
            raise Unreadable(f"Pod {exporter.name} cannot be read.") from error
        return port


@dataclass(frozen=True, slots=True)
class _ReadOptions:
    """Options of a read: callback for readings, interval in seconds, source, and callback for refusals."""

    on_reading: ReadingCallback
    every: float
    source: GpuSource
    on_refused: Callable[[Refused], None] = lambda _: None
