"""Reads the checkpoints of a job that somebody looks at, in the folder that its log names, within limits."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from console.checkpoints.saved import SavedState, saved_folder
from console.checkpoints.sources import find_saved_folder, survey_bucket, survey_container
from console.errors import ConsoleError, NotFound, Unreachable
from console.google.storage import parse_gcs_address
from console.kube.find_job import find_job
from console.scheduling.ranks import ranks

if TYPE_CHECKING:
    from console.attach.files.copies import FileCopies
    from console.google.storage import CloudStorage
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.measures import MeasureService

READ_TIMEOUT = 60.0  # seconds after which a folder that was not asked for by a command is given up
MAX_FILES = 20_000  # that are looked at then


class CheckpointReader:
    """Reads the checkpoints of one job at a time, and keeps what was read last of each."""

    def __init__(
        self,
        cluster: WatchedCluster,
        measures: Callable[[], MeasureService],
        copies: Callable[[], FileCopies],
        storage: Callable[[], CloudStorage],
    ) -> None:
        self._cluster, self._measures, self._copies, self._storage = cluster, measures, copies, storage
        self._one = asyncio.Lock()
        self.known: dict[tuple[str, str], SavedState] = {}

    def on_context_changed(self) -> None:
        self.known.clear()

    async def find_folder(self, namespace: str, name: str) -> str:
        """The folder that the job's log says it saves to, read to its end if nobody follows it; else NotFound."""
        find_job(self._cluster.fleet, namespace, name)
        followed = self._measures().find_followed((namespace, name))
        if place := saved_folder(followed):
            return place
        if followed is None or not any(followed.tracks):
            async with self._measures().open_job(namespace, name, once=True) as measures:
                async for _ in measures.follow_changes():
                    pass
            if place := saved_folder(measures):
                return place
        raise NotFound(
            f"The log of {name} does not say where it saves checkpoints.",
            f"Name the folder: a4 checkpoints {name}:0:/PATH, or gs://BUCKET/FOLDER.",
        )

    async def read_job(self, namespace: str, name: str) -> SavedState:
        """Read a job's checkpoints, by commands in its first pod or from the bucket; `problem` is why that failed."""
        key = namespace, name
        async with self._one:
            begun, found = time.monotonic(), SavedState(time.time())
            try:
                async with asyncio.timeout(READ_TIMEOUT):
                    found = replace(found, place=await self.find_folder(*key))
                    found = await self._survey(key, found)
            except TimeoutError:
                found = replace(
                    found, problem=f"The log and the folder of {key[1]} could not be read in {READ_TIMEOUT:.0f} s."
                )
            except ConsoleError as error:
                found = replace(found, problem=error.message)
            if found.survey is not None:
                files = sum(each.files for each in found.survey.checkpoints)
                took = f"{files:,} {'file' if files == 1 else 'files'} in {time.monotonic() - begun:.1f} s"
                found = replace(found, by=f"{took}, {found.by}")
            self.known[key] = found
            return found

    async def _survey(self, key: tuple[str, str], found: SavedState) -> SavedState:
        if found.place.startswith("gs:"):
            place = parse_gcs_address(found.place)
            survey = await survey_bucket(self._storage(), place, found.at, most=MAX_FILES)
            return replace(found, survey=survey, by="by listing the bucket")
        fleet = self._cluster.fleet
        first = next(iter(ranks(find_job(fleet, *key), fleet)), None)
        pod = first.pod if first is not None and first.phase == "Running" else None
        if pod is None or pod.main is None:
            raise Unreachable(f"Pod 0 of {key[1]} does not run.")
        copies = self._copies().for_container(*pod.key, container=pod.main.name, where=f"pod 0 of {key[1]}")
        files = copies.command_files()
        found = replace(found, place=await find_saved_folder(files, found.place))
        survey = await survey_container(files, found.place, found.at, most=MAX_FILES)
        return replace(found, survey=survey, by="by commands in pod 0")
