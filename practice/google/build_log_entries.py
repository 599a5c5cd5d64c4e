"""Google.logging.v2: log entries of practice builds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from google.api.monitored_resource_pb2 import MonitoredResource
from google.cloud.logging_v2.types import ListLogEntriesRequest, ListLogEntriesResponse, LogEntry

from practice.google.cloud import PracticeGoogle
from practice.google.serving import Method

LOGGING = "logging.googleapis.com"
_BUILD = re.compile(r'resource\.labels\.build_id="([^"]+)"')
_SINCE = re.compile(r'timestamp>="([^"]+)"')


@dataclass(slots=True)
class LogEntries:
    """The log entries of all builds, by build."""

    world: PracticeGoogle
    entries: dict[str, list[LogEntry]] = field(default_factory=dict)

    def add(self, project: str, build: str, text: str, moment: float) -> None:
        """Add a log line of a build, printed at `moment` (epoch seconds)."""
        entry = LogEntry(
            log_name=f"projects/{project}/logs/cloudbuild",
            insert_id=f"{build}-{self.world.next_number()}",
            timestamp=datetime.fromtimestamp(moment, UTC),
            text_payload=text,
            resource=MonitoredResource(type="build", labels={"build_id": build}),
        )
        self.entries.setdefault(build, []).append(entry)


def grpc_methods(google: PracticeGoogle) -> dict[str, Method]:
    ledger = google.service_state(LogEntries)

    async def list_entries(request: ListLogEntriesRequest) -> ListLogEntriesResponse:
        for each in request.resource_names:
            google.require_service(each.removeprefix("projects/"), LOGGING)
        build, since = _BUILD.search(request.filter), _SINCE.search(request.filter)
        found = (
            ledger.entries.get(build[1], []) if build else [each for all_ in ledger.entries.values() for each in all_]
        )
        if since:
            start = datetime.fromisoformat(since[1].replace("Z", "+00:00"))
            found = [each for each in found if each.timestamp >= start]
        page, token = google.paginate(found, request.page_size, request.page_token)
        return ListLogEntriesResponse(entries=page, next_page_token=token)

    return {"/google.logging.v2.LoggingServiceV2/ListLogEntries": Method(ListLogEntriesRequest, list_entries)}
