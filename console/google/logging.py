"""Cloud Logging: what builds have printed; the only importer of google.cloud.logging_v2."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.types import ListLogEntriesRequest

from console.google.failures import told
from console.models.build import BuildLine

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.google.reach import Reach

PATIENCE = 30.0
PAGE = 1000
"""Entries in one answer: the service allows sixty answers a minute."""


class BuildEntries:
    """The entries of one build, read again and again while it is written."""

    def __init__(self, reach: Reach, project: str, number: str) -> None:
        self._client = reach.client(LoggingServiceV2AsyncClient)
        self._project, self._number = project, number
        self._since = ""
        self._seen: set[str] = set()
        """Names of the entries at the latest moment, which the next look finds again."""

    async def more(self) -> AsyncGenerator[BuildLine, None]:
        """Lines that no look before has given, oldest first."""
        wanted = f'resource.type="build" AND resource.labels.build_id="{self._number}"'
        if self._since:
            wanted += f' AND timestamp>="{self._since}"'
        request = ListLogEntriesRequest(
            resource_names=[f"projects/{self._project}"], filter=wanted, order_by="timestamp asc", page_size=PAGE
        )
        with told(f"read the log of build {self._number}"):
            async for entry in await self._client.list_log_entries(request, timeout=PATIENCE):
                if self._is_new(entry):
                    yield BuildLine(entry.timestamp.timestamp(), entry.text_payload)

    def _is_new(self, entry: Any) -> bool:
        if entry.insert_id in self._seen:
            return False
        moment = _written(entry.timestamp)
        if moment != self._since:
            self._since, self._seen = moment, set()
        self._seen.add(entry.insert_id)
        return True


def _written(moment: Any) -> str:
    """A moment as a filter has it, to the nanosecond: two entries of one moment are told apart by their names."""
    return str(moment.rfc3339()) if hasattr(moment, "rfc3339") else datetime.fromtimestamp(
        moment.timestamp(), UTC
    ).isoformat()  # fmt: skip
