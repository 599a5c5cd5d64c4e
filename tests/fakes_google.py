"""Google's side of a session, for screens: `answers["pools"]` is a picture or an error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from console.errors import ConsoleError, NotFound
from console.google.node_pools import NodePools
from console.launch.choices import FieldChoices

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from console.google.clusters import GkeOperation
    from console.google.node_pools import PoolsSnapshot
    from console.kube.objects.node import Node
    from tests.fakes import FakeSession

NONE = NotFound("The cluster of context test is not a GKE cluster.")


class FakeNodePools:
    """What is asked for is kept in `calls`; what is looked at is what `answers` say at that moment."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self._real = NodePools(cast("Any", session), cast("Any", None))

    last_snapshot: PoolsSnapshot | None = None

    async def read_snapshot(self) -> PoolsSnapshot:
        return cast("PoolsSnapshot", self._session._did("pools", default=NONE))

    async def follow_snapshots(self) -> AsyncGenerator[PoolsSnapshot | ConsoleError, None]:
        try:
            yield await self.read_snapshot()
        except ConsoleError as error:
            yield error
        await asyncio.Event().wait()

    def with_current_nodes(self, picture: PoolsSnapshot) -> PoolsSnapshot:
        return self._real.with_current_nodes(picture)

    def why_not_reportable(self, node: Node) -> str:
        return self._real.why_not_reportable(node)

    async def resize(self, pool: str, nodes: int) -> GkeOperation:
        return cast("GkeOperation", self._session._did("resize", pool, nodes))

    async def scale_between(self, pool: str, least: int, most: int) -> GkeOperation:
        return cast("GkeOperation", self._session._did("scale_between", pool, least, most))

    async def report_fault(self, node: str, fault: str) -> None:
        self._session._did("report", node, fault)


class FakeCloud:
    """The login at Google."""

    practice_folder = None
    practice = False

    def __init__(self, session: FakeSession) -> None:
        self._session = session

    async def enable_service(self, project: str, service: str) -> None:
        self._session._did("enable_service", project, service)


class FakeGoogle:
    """`console.session.Google` over what `answers` say."""

    def __init__(self, session: FakeSession) -> None:
        self._session = session
        self.node_pools = FakeNodePools(session)
        self.cloud = FakeCloud(session)

    async def field_choices(self, kind: str) -> Any:
        return self._session._did("google_offer", kind, default=FieldChoices(kind))
