"""The practice cluster as a whole: storage, admission, controllers, kubelets, scene, API server."""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from console.folders import PRACTICE_PREFIX, make_private
from practice.admission.chain import AdmissionChain
from practice.api.server import ApiServer
from practice.clock import Clock
from practice.controllers.base import ControlPlane
from practice.controllers.gc import GarbageCollector, NamespaceController
from practice.controllers.job import JobController
from practice.controllers.jobset import JobSetController
from practice.controllers.kubelet import Kubelets
from practice.controllers.kueue.cycle import AdmissionController
from practice.controllers.kueue.jobs import ManagedJobs
from practice.controllers.kueue.pods import ManagedPods
from practice.controllers.kueue.status import QueueStatus
from practice.controllers.kueue.ungate import TopologyUngater
from practice.controllers.kueue.workloads import WorkloadController
from practice.controllers.machines import FlexStart, NodeAgents, NodeReplacements
from practice.controllers.nodes import NodeController
from practice.controllers.quotas import QuotaController
from practice.controllers.scheduler import Scheduler
from practice.controllers.volumes import VolumeController
from practice.folder_removal import hold_folder, remove_abandoned_folders, remove_folder
from practice.node.pod_runtime import PodRuntime
from practice.objects.resources import JOBS, JOBSETS
from practice.objects.storage import Storage
from practice.scene.cluster_faults import apply_cluster_faults
from practice.scene.timeline import HISTORY_SECONDS, create_seed_objects, schedule_story

if TYPE_CHECKING:
    from types import TracebackType

    from practice.google.server import GoogleServer
    from practice.objects.api_error import Object

Scene = Literal["full", "empty"]
GOOGLE_ENDPOINTS_PATH = "/practice/google"  # where the API server says how practice Google is reached


class PracticeCluster:
    """A practice cluster on a loopback port, from ``start`` to ``stop``; also an async context manager.

    ``scene`` "full" opens in the middle of a working day, "empty" has machines and queues but no job. Its files (the
    kubeconfig, the folders of pods) are in ``folder``, or in a temporary one that is removed with it.
    """

    def __init__(
        self,
        *,
        speed: float = 1.0,
        seed: int = 0,
        scene: Scene | bool = True,
        port: int = 0,
        folder: Path | None = None,
    ) -> None:
        self._with_jobs = scene in (True, "full")
        self._opening = float(int(time.time()))  # a whole second: what is played is alike whenever that is
        past = HISTORY_SECONDS if self._with_jobs else 1.0
        self.clock = Clock(speed, start=self._opening - past)
        self.clock.live_from = self._opening
        self.storage = Storage(self.clock.now, seed=seed)
        self.storage.admission.append(AdmissionChain(self.storage, self.clock))
        self.plane = ControlPlane(self.storage, self.clock, seed)
        self.kubelets = Kubelets(self.plane, seed)
        self._seed = seed
        self._own_folder = folder is None
        self._lock: int | None = None
        self.folder = (
            folder if folder is not None else Path(tempfile.gettempdir()) / f"{PRACTICE_PREFIX}{secrets.token_hex(6)}"
        )
        self.runtime = PodRuntime(self.kubelets, self.folder / "pods")
        self.server = ApiServer(self.storage, self.runtime, port=port)
        self.kubeconfig = self.folder / "kubeconfig"
        self._nodes = NodeController(self.plane)
        self.google: GoogleServer | None = None
        """The Google imitation; None until it is first requested, as its messages take a second to import."""
        self._opening_google = asyncio.Lock()
        self.server.extra_routes[GOOGLE_ENDPOINTS_PATH] = self.open_google

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return self.server.url

    def simulate_past(self) -> None:
        """Replay everything that happened before the opening."""
        admission = AdmissionController(self.plane)
        for controller in (
            JobSetController(self.plane),
            JobController(self.plane),
            ManagedJobs(self.plane, JOBSETS),
            ManagedJobs(self.plane, JOBS),
            ManagedPods(self.plane),
            WorkloadController(self.plane),
            admission,
            QueueStatus(self.plane, admission.queues),
            TopologyUngater(self.plane),
            Scheduler(self.plane),
            VolumeController(self.plane),
            NodeReplacements(self.plane),
            FlexStart(self.plane),
            NodeAgents(self.plane, scene=self._with_jobs),
            self.kubelets,
            self._nodes,
            GarbageCollector(self.plane),
            NamespaceController(self.plane),
            QuotaController(self.plane),
        ):
            self.plane.add(controller)
        create_seed_objects(self.storage, opening_time=self._opening, seed=self._seed, faults=self._with_jobs)
        if self._with_jobs:
            schedule_story(self.storage, self.clock, self._opening)
        self.clock.simulate_until(self._opening)
        apply_cluster_faults(self.storage, self.server.admin, self.kubelets.registries)

    async def start(self) -> None:
        """Start the cluster; on return the kubeconfig is written and ``url`` answers."""
        if self._own_folder:
            await asyncio.to_thread(remove_abandoned_folders, self.folder.parent)
            self.folder.mkdir(mode=0o700)
            self._lock = hold_folder(self.folder)
        else:
            make_private(self.folder)
        self.simulate_past()
        self.clock.start_real_time()
        await self.server.start()
        self.server.kubeconfig(self.kubeconfig)
        self.server.kubeconfig(self.folder / "reader.kubeconfig", account=self.server.reader)
        self._nodes.renew_heartbeats()

    async def open_google(self) -> Object:
        """Start the Google imitation unless it runs; returns its endpoints and a token."""
        async with self._opening_google:
            if self.google is None:
                await asyncio.to_thread(_import_google_server)
                self.google = self._make_google()
                await self.google.start()
        where = {"project": "practice", "location": "us-central1", "cluster": "practice"}
        return {**where, "grpc": self.google.grpc, "http": self.google.http, "token": self.server.admin.token}

    def _make_google(self) -> GoogleServer:
        from practice.google.cloud import PracticeGoogle
        from practice.google.google_faults import apply_google_faults
        from practice.google.server import GoogleServer

        world = PracticeGoogle(
            self.storage,
            self.clock,
            server=self.url,
            authority=self.server.authority,
            registries=self.kubelets.registries,
            buckets=self.kubelets.buckets,
        )
        apply_google_faults(world)
        return GoogleServer(world, self.server.admin.token)

    async def stop(self) -> None:
        """Stop all servers and controllers, and remove temporary files."""
        if self.google is not None:
            await self.google.stop()
        self.plane.stop()
        await self.runtime.close()
        await self.server.stop()
        if self._own_folder:
            await asyncio.to_thread(remove_folder, self.folder)
        if self._lock is not None:
            os.close(self._lock)

    async def __aenter__(self) -> PracticeCluster:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


def _import_google_server() -> None:
    """Import the messages of Google's services, in a thread."""
    importlib.import_module("practice.google.server")
