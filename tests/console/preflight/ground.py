"""One practice cluster with practice Google for many tests: each breaks something, looks, and puts it back."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from google.cloud import container_v1 as api

from console.connection_settings import Settings
from console.launch.recipes import LaunchPlan
from console.preflight.check import Check, LaunchNeeds, Result
from console.session import Session
from practice.cluster import PracticeCluster, Scene
from practice.google.cloud import CLUSTER, PROJECT, REGION, PracticeGoogle
from practice.google.pool_operations import PoolWork
from practice.objects.resources import Resource

DEADLINE = 60.0
NCCL = "nccl-all-reduce"
CHECKED_KINDS = ("nodes", "pods", "events", "clusterqueues", "localqueues", "resourceflavors", "topologies", "cohorts")


@dataclass
class Ground:
    """The cluster, a session on it, and the world of Google around it."""

    cluster: PracticeCluster
    session: Session

    @property
    def world(self) -> PracticeGoogle:
        assert self.cluster.google is not None
        return self.cluster.google.world

    @property
    def gke(self) -> api.Cluster:
        return self.world.service_state(PoolWork).clusters[PROJECT, REGION, CLUSTER]

    def wish(self, recipe: str = "", *values: str, name: str = "train-1", **more: str) -> LaunchNeeds:
        plan = None
        if recipe:
            plan = LaunchPlan(recipe, name, "default", self.session.launch.set_values(recipe, values, {}))
        return self.session.preflight.launch_needs(plan, **more)

    async def look(self, id_: str, wish: LaunchNeeds | None = None) -> Check:
        (check,) = await self.session.preflight.run_all(wish or self.wish(), (id_,))
        return check

    async def becomes(self, result: Result, id_: str, wish: LaunchNeeds | None = None) -> Check:
        """Look until the watch has brought what was changed."""
        end = time.monotonic() + DEADLINE
        while True:
            check = await self.look(id_, wish)
            if check.result is result:
                return check
            assert time.monotonic() < end, check
            await asyncio.sleep(0)

    @contextmanager
    def without(self, resource: Resource, namespace: str, name: str) -> Iterator[None]:
        """An object is gone."""
        storage = self.cluster.storage
        kept = deepcopy(storage.get(resource, namespace, name))
        storage.remove(resource, namespace, name)
        try:
            yield
        finally:
            for field in ("uid", "resourceVersion", "generation"):
                kept["metadata"].pop(field, None)
            storage.create(resource, kept, keep_status=True)

    @contextmanager
    def with_(self, resource: Resource, obj: dict[str, Any]) -> Iterator[None]:
        """An object is there."""
        made = self.cluster.storage.create(resource, obj, keep_status=True)
        try:
            yield
        finally:
            self.cluster.storage.remove(resource, made["metadata"].get("namespace", ""), made["metadata"]["name"])

    @contextmanager
    def changed(
        self, resource: Resource, namespace: str, names: list[str], change: Callable[[Any], None]
    ) -> Iterator[None]:
        """Objects are other than usual."""
        storage = self.cluster.storage
        kept = {name: deepcopy(storage.get(resource, namespace, name)) for name in names}

        def put_back(name: str) -> Callable[[Any], None]:
            def put(draft: Any) -> None:
                draft["metadata"]["labels"] = deepcopy(kept[name]["metadata"].get("labels", {}))
                draft["spec"] = deepcopy(kept[name].get("spec", {}))

            return put

        for name in names:
            storage.modify(resource, namespace, name, change)
        try:
            yield
        finally:
            for name in names:
                storage.modify(resource, namespace, name, put_back(name))

    def a4_nodes(self) -> list[str]:
        return sorted(key[1] for key, node in self.session.fleet.nodes.items() if node.gpus)


@asynccontextmanager
async def ground(*, reader: bool = False, scene: Scene = "empty", **settings: Any) -> AsyncIterator[Ground]:
    """A cluster and a session of its administrator, or of the account that may see little."""
    async with PracticeCluster(speed=200, scene=scene) as cluster:
        place = cluster.folder / "reader.kubeconfig" if reader else cluster.kubeconfig
        session = await Session.open(Settings(kubeconfig=place, practice=True, **settings), kinds=CHECKED_KINDS)
        try:
            if not reader:
                await session.google.account.open_session()
                await session.wait_until_listed(*CHECKED_KINDS)
            yield Ground(cluster, session)
        finally:
            await session.close()
