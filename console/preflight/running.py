"""Runs checks: some at a time, each within its limit, told as they end."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from console.errors import BadInput, ConsoleError
from console.models.check import Check, Result
from console.preflight.looking import Looking, Questions
from console.preflight.repairs import mend
from console.preflight.table import BY_ID, CHECKS, STOPS_A_LAUNCH, Spec
from console.preflight.verdict import Verdict, blind
from console.preflight.wish import Wish

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection, Mapping

    from console.in_cloud import ClusterInCloud
    from console.models.check import Repair
    from console.models.launch import LaunchPlan
    from console.models.values import Value

AT_ONCE = 8
"""Checks that look at the same time."""
LIMIT = 20.0
"""Seconds for one check."""
BEFORE_LAUNCH = 1.8
"""Seconds for all checks of a launch that is about to begin."""
ASKING_GOOGLE = 8.0
"""The same for a launch that mounts what Google keeps: loading its libraries alone takes two seconds, and a bucket that
is not there is better known before."""
SETTLING = 6.0
"""Seconds for which a check is looked at again after what it lacked was made."""
_CLUSTER = "NAME"
"""Stands in a command for the cluster, until its place is known."""
KINDS = ("nodes", "pods", "events", "clusterqueues", "localqueues", "resourceflavors", "topologies", "cohorts")
"""Kinds of the watch that checks use."""


class Preflight:
    """The checks over one cluster."""

    def __init__(self, cluster: ClusterInCloud, *, limit: float = LIMIT) -> None:
        self._cluster = cluster
        self._limit = limit

    def wish(
        self, plan: LaunchPlan | None = None, *, namespace: str = "", bucket: str = "", registry: str = ""
    ) -> Wish:
        """What a plan asks for; without one the cluster as a whole is looked at."""
        if plan is None:
            return Wish(namespace or self._cluster.namespace, bucket=bucket, registry=registry)
        values: Mapping[str, Value] = self._cluster.drafting.values(plan)
        return Wish(plan.namespace, plan.recipe, plan.name, values, bucket, registry)

    def begun(self, ids: Collection[str] = ()) -> tuple[Check, ...]:
        """The checks as rows that wait for their answer; BadInput for an id there is none of."""
        return tuple(Check(each.id, each.title, each.area, Result.COULD_NOT, "", "", each.fix) for each in _chosen(ids))

    async def run(
        self, wish: Wish, ids: Collection[str] = (), *, within: float | None = None
    ) -> AsyncGenerator[Check, None]:
        """Every check, or those named, in the order in which they end; `within` so many seconds all together."""
        chosen = _chosen(ids)
        end = None if within is None else time.monotonic() + within
        questions, gate = Questions(self._cluster), asyncio.Semaphore(AT_ONCE)

        async def one(spec: Spec) -> Check:
            async with gate:
                left = self._limit if end is None else max(0.0, min(self._limit, end - time.monotonic()))
                return await self._checked(spec, Looking(questions, wish), left)

        tasks = [asyncio.create_task(one(spec), name=f"preflight:{spec.id}") for spec in chosen]
        try:
            for ended in asyncio.as_completed(tasks):
                yield await ended
        finally:
            for task in tasks:
                task.cancel()
            questions.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def all(self, wish: Wish, ids: Collection[str] = (), *, within: float | None = None) -> tuple[Check, ...]:
        """The same at once, in the order of the table."""
        found = [check async for check in self.run(wish, ids, within=within)]
        return tuple(sorted(found, key=lambda check: check.id))

    async def before_launch(self, plan: LaunchPlan) -> tuple[Check, ...]:
        """The checks that could stop this launch; `BEFORE_LAUNCH` says for how long they are waited for.

        Whose account the pods have (P08) matters to the buckets that they mount, and to nothing else of a launch.
        """
        wish = self.wish(plan)
        of_google = wish.buckets or wish.mounts_nfs or wish.mounts_lustre
        ids = STOPS_A_LAUNCH if wish.buckets else STOPS_A_LAUNCH - {"P08"}
        return await self.all(wish, ids, within=ASKING_GOOGLE if of_google else BEFORE_LAUNCH)

    async def repair(self, repair: Repair) -> str:
        """Do it; what was done, in one sentence. ConsoleError where it cannot be; NotAllowed in read-only mode."""
        return await mend(self._cluster, repair)

    async def settled(self, wish: Wish, id_: str) -> Check:
        """One check after a repair: what was made may take a moment to be seen."""
        end = time.monotonic() + SETTLING
        while True:
            (check,) = await self.all(wish, (id_,))
            if check.result is Result.OK or time.monotonic() > end:
                return check
            await asyncio.sleep(0.25)

    async def _checked(self, spec: Spec, looking: Looking, limit: float) -> Check:
        started = time.monotonic()
        try:
            async with asyncio.timeout(limit):
                verdict = await spec.look(looking)
        except TimeoutError:
            words = f"There was no answer within {limit:.3g} s."
            verdict = Verdict(Result.COULD_NOT, "Nothing was seen.", words, "Look again in a moment.")
        except ConsoleError as error:
            verdict = blind(error)
        command = verdict.command or spec.command
        if verdict.result in {Result.FAIL, Result.WARN} and _CLUSTER in command:
            with suppress(ConsoleError):  # then the command keeps NAME in its place
                place = await looking.place()
                where = f"{place.cluster} --location={place.location} --project={place.project}"
                command = command.replace(_CLUSTER, where)
        return Check(
            id=spec.id,
            title=spec.title,
            area=spec.area,
            result=verdict.result,
            evidence=verdict.evidence,
            reason=verdict.reason,
            fix=verdict.fix or spec.fix,
            command=command,
            repair=verdict.repair,
            looks=tuple(looking.looks),
            at=time.time(),
            seconds=round(time.monotonic() - started, 3),
        )


def _chosen(ids: Collection[str]) -> tuple[Spec, ...]:
    wanted = {each.upper() for each in ids}
    unknown = sorted(wanted - BY_ID.keys())
    if unknown:
        raise BadInput(f"There is no check {', '.join(unknown)}.", f"They are {CHECKS[0].id} to {CHECKS[-1].id}.")
    return tuple(each for each in CHECKS if each.id in wanted) if wanted else CHECKS
