"""Checks without a cluster: what they found is set by the test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from console.preflight.all_checks import CHECKS
from console.preflight.check import Check, Result

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Collection

    from console.preflight.check import Repair


class FakePreflight:
    """Every check is well, unless `found` says otherwise; `held` keeps all from ending, `awaited` is what is told."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.found: dict[str, Check] = {}
        self.held: asyncio.Event | None = None
        self.awaited: tuple[str, ...] = ()

    def launch_needs(self, plan: Any = None, **more: Any) -> Any:
        return plan

    def pending_checks(self, ids: Collection[str] = ()) -> tuple[Check, ...]:
        return tuple(
            Check(each.id, each.title, each.area, Result.COULD_NOT, "", "", each.fix)
            for each in CHECKS
            if not ids or each.id in ids
        )

    async def run(self, wish: Any, ids: Collection[str] = ()) -> AsyncGenerator[Check, None]:
        self._session._did("preflight", wish, tuple(ids))
        if self.held is not None:
            await self.held.wait()
        for each in CHECKS:
            if not ids or each.id in ids:
                well = Check(each.id, each.title, each.area, Result.OK, "It is well.", "", each.fix, at=1.0)
                yield self.found.get(each.id, well)

    async def before_launch(self, plan: Any, on_wait: Callable[[tuple[str, ...]], None]) -> tuple[Check, ...]:
        if self.awaited:
            on_wait(self.awaited)
        return tuple([check async for check in self.run(plan)])

    async def recheck_after_repair(self, wish: Any, id_: str) -> Check:
        (check,) = [check async for check in self.run(wish, (id_,))]
        return check

    async def repair(self, repair: Repair) -> str:
        return str(self._session._did("repair", repair, default="Done."))
