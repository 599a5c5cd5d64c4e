"""Runs a scenario on the real Kueue: what it decided after each event, in the order of its own log.

The runner stands in for the jobs: it creates Workloads, gives back the quota of those that are evicted, as a job does
once its pods are gone, and marks those finished whose time is over. Kueue's log tells when it has nothing left to try.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from practice.controllers.kueue.info import read_workload
from tests.contract.client import FOREVER, MERGE_PATCH, Api
from tests.contract.cluster import CORE, KUEUE, eventually
from tests.lab.build import LabError
from tests.lab.flags import LEFT_ALONE
from tests.lab.machines import Object
from tests.lab.scenarios.draw import KUEUE_VERSION, NAMESPACE, SCENARIO, Job, Scenario

PLURALS = {
    "Topology": "topologies", "ResourceFlavor": "resourceflavors", "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues", "AdmissionCheck": "admissionchecks",
}  # fmt: skip
WORKLOADS = f"{KUEUE}/namespaces/{NAMESPACE}/workloads"
SETTLED_AFTER = 4
"""Cycles in a row with the same heads: one of them may have begun before the last change, and a head is tried once for
each of its flavors.
"""
SETTLE_LIMIT = 300.0
CALM_AFTER = 40
"""Cycles without a retry: Kueue collects events of nodes for a second or two."""
MOST_CYCLES = 8  # that are told of one that did not come to rest
ENDLESS = 40
"""Decisions after one event, from which on they go round."""
FENCE = "fence"
_FOLLOWED = re.compile(
    rb'"msg":"(Scheduling cycle (starts|complete)|Attempting to (move workloads|schedule workload)|Preempted"'
    rb"|Evicting workload after failed try|Could not admit Workload"
    rb"|Workload (create event|update event|assumed in the cache)|Cohort is being created or updated)"
)
"""The few lines of Kueue's log that are read."""


@dataclass(slots=True)
class Step:
    """What Kueue did after one event."""

    event: str  # arrives or ends; one of FAILURES, or "elsewhere" where a node of another scenario failed
    job: str  # or node
    at: float
    moves: list[list[str]] = field(default_factory=list)
    """In the order of decisions: a workload that is admitted, or that gets another node for one that failed; or a
    victim, and for whom or for which node.
    """
    holding: dict[str, Object] = field(default_factory=dict)
    """Afterwards: the Workload objects of all that hold quota."""
    cycles: list[list[Any]] = field(default_factory=list)
    """From the step before: how often in a row Kueue tried the same heads, and those; what happened between has 0."""


@dataclass(slots=True)
class Record:
    """A scenario as it went: the objects as the API server has them, and each step."""

    seed: int
    objects: list[Object]
    jobs: list[Object]  # as created, with uid and creation time
    steps: list[Step]
    endless: bool = False
    """Whether the last step never ended: workloads evicted each other in turn."""
    restless: str = ""
    """Why it ends early, where Kueue did not come to rest after an event that is not among the steps."""


@dataclass(slots=True)
class Follower:
    """What the log says of one scenario."""

    awaited: set[str] = field(default_factory=set)
    releases: set[str] = field(default_factory=set)  # victims that still hold their quota
    leaving: list[str] = field(default_factory=list)  # those of them whose pods run till all else is settled
    heads: list[str] = field(default_factory=list)
    quiet: int = 0
    quiet_heads: list[str] | None = None
    moves: list[list[str]] = field(default_factory=list)
    cycles: list[list[Any]] = field(default_factory=list)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    busy: bool = False  # an event was sent, and all that follows from it has not happened yet
    disturbed: bool = False  # meanwhile Kueue tried all again for another reason, as when a node's state was written

    def wait_for(self, label: str) -> None:
        self.awaited.add(label)
        self.changed()

    def changed(self) -> None:
        self.quiet, self.quiet_heads = 0, None
        self.settled.clear()

    def note(self, what: list[str], cycles: int) -> None:
        """Cycles with these heads, or something that happened between two."""
        if cycles and self.cycles and self.cycles[-1][0] and self.cycles[-1][1] == what:
            self.cycles[-1][0] += cycles
        else:
            self.cycles.append([cycles, what])


class NotAtRestError(LabError):
    """Kueue goes on trying for longer than anybody waits for it."""


class Meeting:
    """Where all scenarios beside each other wait, once, until a node of some fails.

    A node that changes makes Kueue try all again, in the queues of the other scenarios too.
    """

    def __init__(self, scenarios: Iterable[Scenario]) -> None:
        self.roots = {each.name: {each.root_cohort(queue["metadata"]["name"]) for queue in each.of_kind("ClusterQueue")}
                      for each in scenarios}  # fmt: skip
        self._coming = set(self.roots)
        self.failing: dict[str, tuple[str, str]] = {}  # by scenario, how a node fails, and which
        self.all_there = asyncio.Event()
        self.one_by_one = asyncio.Lock()

    def expect_no_more(self, name: str) -> None:
        self._coming.discard(name)
        if not self._coming:
            self.all_there.set()


class KueueLog:
    """Reads Kueue's log while it is written and follows each scenario in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.followers: dict[str, Follower] = {}
        self.roots: dict[str, str] = {}  # the cohort at the top of the tree, of each workload and each Cohort
        self.evictions: asyncio.Queue[str] = asyncio.Queue()
        self.calm = asyncio.Event()  # all nodes and flavors that came or went have been heard of
        self._still = 0  # cycles since all of a cohort was last tried again
        self._cycle_counts: set[str] = set()  # scenarios that changed since the cycle began

    async def run(self) -> None:
        with self._path.open("rb") as log:
            log.seek(0, 2)
            rest = b""
            while True:
                if not (more := log.read()):
                    await asyncio.sleep(0.01)
                    continue
                *lines, rest = (rest + more).split(b"\n")
                for line in lines:
                    if line.startswith(b"{") and _FOLLOWED.search(line):
                        self._read(json.loads(line))

    def _read(self, line: Object) -> None:
        what = line["msg"]
        if what == "Scheduling cycle starts":
            self._cycle_counts.clear()
            for follower in self.followers.values():
                follower.heads = []
        elif what == "Scheduling cycle complete":
            self._still += 1
            if self._still >= CALM_AFTER:
                self.calm.set()
            for name, follower in self.followers.items():
                self._end_cycle(name, follower)
        elif what == "Attempting to move workloads":
            self._still = 0
            self.calm.clear()
            self._on_move(str(line["rootCohort"]))
        elif what == "Cohort is being created or updated":
            self._on_cohort(str(line["name"]))
        elif isinstance(workload := line.get("workload"), dict) and workload.get("namespace") == NAMESPACE:
            self._on_workload(what, str(workload["name"]), line)

    def _end_cycle(self, name: str, follower: Follower) -> None:
        follower.heads.sort()  # Kueue looks at its queues in an order of chance: that of a Go map
        follower.note(follower.heads, 1)
        if len(follower.moves) >= ENDLESS:
            follower.settled.set()
        if follower.awaited or name in self._cycle_counts:
            return
        follower.quiet = follower.quiet + 1 if follower.heads == follower.quiet_heads or not follower.heads else 1
        follower.quiet_heads = follower.heads
        if follower.quiet < SETTLED_AFTER:
            return
        if not follower.releases:
            follower.settled.set()
        for victim in follower.leaving:
            self.evictions.put_nowait(victim)
        follower.leaving = []

    def _changed(self, name: str) -> Follower | None:
        scenario = name.partition("-")[0]
        follower = self.followers.get(scenario)
        if follower is not None:
            self._cycle_counts.add(scenario)
            follower.changed()
        return follower

    def _on_move(self, cohort: str) -> None:
        if follower := self._changed(cohort):
            follower.note(["move", cohort], 0)
            follower.disturbed |= follower.busy and f"move {cohort}" not in follower.awaited
            follower.awaited.discard(f"move {cohort}")

    def await_calm(self) -> None:
        self._still = 0
        self.calm.clear()

    def _on_cohort(self, cohort: str) -> None:
        """A Cohort is looked at anew when the status of a queue in it changes; a second later all are tried again."""
        if follower := self._changed(cohort):
            follower.awaited.add(f"move {self.roots[cohort]}")

    def _on_evicted(self, victim: str, by: str) -> None:
        if follower := self._changed(victim):
            follower.moves.append([victim, by])
            follower.note([victim, by], 0)
            follower.releases.add(victim)
            follower.leaving.append(victim)

    def _on_workload(self, what: str, name: str, line: Object) -> None:
        follower = self.followers.get(name.partition("-")[0])
        if follower is None:
            return
        # What the API server refuses of what Kueue writes is not waited for.
        follower.awaited -= {f"admit {name}"} if what.startswith("Could not admit") else set()
        if what == "Attempting to schedule workload":
            follower.heads.append(name)
        elif what == "Workload create event":
            self._changed(name)
            follower.note([name, "created"], 0)
            follower.awaited.discard(f"create {name}")
        elif what == "Workload assumed in the cache":
            self._changed(name)
            follower.moves.append([name])
            follower.note([name], 0)
            if f"replace {name}" not in follower.awaited:
                follower.awaited.add(f"admit {name}")
        elif what == "Workload update event" and {f"fail {name}", f"replace {name}"} & follower.awaited:
            self._changed(name)
            failed = "unhealthyNodes" in line
            follower.awaited -= {f"fail {name}" if failed else f"replace {name}"}
            follower.awaited |= {f"replace {name}"} if failed else set()
        elif what == "Workload update event" and line.get("prevStatus", line["status"]) != line["status"]:
            self._changed(name)
            self._on_status(follower, name, str(line["status"]))
        elif what == "Preempted":
            self._on_evicted(str(line["targetWorkload"]["name"]), name)
        elif what.startswith("Evicting workload after failed try"):
            follower.awaited.discard(f"replace {name}")
            self._on_evicted(name, ",".join(line["unhealthyNodes"]))

    def _on_status(self, follower: Follower, name: str, status: str) -> None:
        follower.note([name, status], 0)
        if status in ("finished", "pending"):  # a second later those that wait are tried again
            follower.awaited.add(f"move {self.roots[name]}")
        # One that has to wait for a check holds its quota and its nodes all the same.
        events = {"finished": "finish", "admitted": "admit", "quotaReserved": "admit"}
        follower.awaited.discard(events.get(status, "") + f" {name}")
        if status == "pending":
            follower.releases.discard(name)


class RealKueue:
    """The lab's Kueue, on which scenarios run beside each other: each has its own queues, flavors and nodes."""

    def __init__(self, api: Api, log: KueueLog) -> None:
        self.api, self.log = api, log

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path, log: Path) -> AsyncIterator[RealKueue]:
        async with Api.open(kubeconfig, FOREVER) as api, asyncio.TaskGroup() as tasks:
            kueue = cls(api, KueueLog(log))
            running = [tasks.create_task(kueue.log.run()), tasks.create_task(kueue._release_evicted())]
            await kueue._create(f"{CORE}/namespaces", {"kind": "Namespace", "apiVersion": "v1",
                                                        "metadata": {"name": NAMESPACE}})  # fmt: skip
            await kueue._create_fence()
            try:
                yield kueue
            finally:
                await kueue._remove_fence()
                for each in running:
                    each.cancel()

    async def _create_fence(self) -> None:
        """A StrictFIFO queue whose head never fits: Kueue tries it in cycle after cycle, and so the log goes on."""
        spec: Object = {
            "namespaceSelector": {}, "queueingStrategy": "StrictFIFO",
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [
                {"name": FENCE, "resources": [{"name": "cpu", "nominalQuota": 0}]}]}],
        }  # fmt: skip
        for kind, body in (("ResourceFlavor", {}), ("ClusterQueue", spec), ("LocalQueue", {"clusterQueue": FENCE})):
            metadata = {"name": FENCE} | ({"namespace": NAMESPACE} if kind == "LocalQueue" else {})
            made = {"apiVersion": KUEUE_VERSION, "kind": kind, "metadata": metadata, "spec": body}
            await self._create(_path(made), made)
        container = {"name": "main", "image": "busybox:1", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        await self._create(WORKLOADS, {
            "apiVersion": KUEUE_VERSION, "kind": "Workload", "metadata": {"name": FENCE, "namespace": NAMESPACE},
            "spec": {"queueName": FENCE, "podSets": [{"name": "main", "count": 1, "template": template}]},
        })  # fmt: skip

    async def _remove_fence(self) -> None:
        await self._delete(f"{WORKLOADS}/{FENCE}")
        for kind in ("localqueues", "clusterqueues", "resourceflavors"):
            place = f"{KUEUE}/namespaces/{NAMESPACE}" if kind == "localqueues" else KUEUE
            await self._delete(f"{place}/{kind}/{FENCE}")
        await self._delete(f"{CORE}/namespaces/{NAMESPACE}")

    async def _create(self, path: str, body: Object) -> Object:
        """Also where a busy machine lets a request time out, of which nobody knows whether it came through."""

        async def created() -> Object | None:
            answer = await self.api.create(path, body)
            if answer.status == 504 or (answer.status == 500 and "deadline exceeded" in answer.body["message"]):
                return None
            if answer.status == 409:
                return (await self.api.get(f"{path}/{body['metadata']['name']}")).made
            assert answer.status == 201, answer.body
            return answer.made

        made = await eventually(created, f"{body['kind']} {body['metadata']['name']} is created", SETTLE_LIMIT)
        assert made is not None
        return made

    async def _delete(self, path: str) -> None:
        answer = await self.api.delete(path)
        assert answer.status in (200, 202, 404, 504), answer.body

    async def _release_evicted(self) -> None:
        while True:
            victims = [await self.log.evictions.get()]
            while not self.log.evictions.empty():
                victims.append(self.log.evictions.get_nowait())
            await asyncio.gather(*map(self._release, victims))

    async def _release(self, victim: str) -> None:
        """Give back the quota of an evicted workload as its job does, once its pods are gone."""
        now = _now()

        def release(status: Object) -> bool:
            kept = {each["type"]: each for each in status["conditions"]}
            if kept.get("Evicted", {}).get("status") != "True" or "admission" not in status:
                return False
            words, why = kept["Evicted"]["message"], kept["Evicted"]["reason"]
            for kind, state, reason in (("QuotaReserved", "False", "Pending"), ("Admitted", "False", "NoReservation"),
                                        ("Requeued", "True", why)):  # fmt: skip
                kept[kind] = {"type": kind, "status": state, "reason": reason, "message": words,
                              "lastTransitionTime": now}  # fmt: skip
            status["conditions"] = list(kept.values())
            del status["admission"]
            return True

        await self._change_status(victim, release)

    async def _change_status(self, name: str, change: Any) -> None:
        async def changed() -> bool:
            answer = await self.api.get(f"{WORKLOADS}/{name}")
            if answer.status == 404:  # its scenario is over
                return True
            found = answer.made
            if not change(found["status"]):
                return False
            answer = await self.api.send("PUT", f"{WORKLOADS}/{name}/status", found)
            assert answer.status in (200, 409, 504), answer.body
            return answer.status == 200

        await eventually(changed, f"the status of {name} is written", SETTLE_LIMIT)

    async def run(self, scenarios: Sequence[Scenario], keep: Callable[[Record], None]) -> list[Record]:
        """Play some beside each other; without those in which something else than their events made Kueue try again.

        `keep` gets each when it is over. A new node or flavor makes it try all again in all queues there are: that is
        why all are prepared first, and removed at the end.
        """
        self.log.followers = {each.name: Follower() for each in scenarios}
        try:
            objects = await asyncio.gather(*map(self._prepare, scenarios))
            async with asyncio.timeout(SETTLE_LIMIT):
                await self.log.calm.wait()
            meeting = Meeting(scenarios)
            both = zip(scenarios, objects, strict=True)
            played = await asyncio.gather(*(self._play(each, made, meeting, keep) for each, made in both))
        finally:
            self.log.followers = {}
            await asyncio.gather(*map(self._remove, scenarios))
        return [record for record in played if record is not None]

    async def _prepare(self, scenario: Scenario) -> list[Object]:
        for node in scenario.nodes:
            await self._create(f"{CORE}/nodes", node)
        picked = f"{SCENARIO}={scenario.name}"
        self.log.roots |= {name: scenario.top_cohort(name) for name in scenario.cohorts}

        async def ready() -> list[Object]:
            found = (await self.api.get(f"{CORE}/nodes", labelSelector=picked)).made["items"]
            # A node that is ready carries the taint of one that is not for a moment longer.
            return found if all(_is(each, "Ready") and not each["spec"].get("taints") for each in found) else []

        nodes = await eventually(ready, f"the nodes of {scenario.name} are ready", SETTLE_LIMIT)
        for each in scenario.objects:
            made = await self._create(_path(each), each)
            if each["kind"] == "AdmissionCheck":  # its controller watches it, and never says that it is met
                words = {"type": "Active", "status": "True", "reason": "Active", "message": "",
                         "lastTransitionTime": _now()}  # fmt: skip
                path = f"{_path(made)}/{made['metadata']['name']}/status"
                await self._patch(path, {"status": {"conditions": [words]}})

        async def active() -> bool:
            found = (await self.api.get(f"{KUEUE}/clusterqueues", labelSelector=picked)).made["items"]
            doors = (await self.api.get(f"{KUEUE}/namespaces/{NAMESPACE}/localqueues", labelSelector=picked)).made
            return all(_is(each, "Active") for each in [*found, *doors["items"]])

        await eventually(active, f"the queues of {scenario.name} are active", SETTLE_LIMIT)
        stored = [(await self.api.get(f"{_path(each)}/{each['metadata']['name']}")).made for each in scenario.objects]
        return [{"apiVersion": "v1", "kind": "Node", **each} for each in nodes] + stored

    async def _play(
        self, scenario: Scenario, objects: list[Object], meeting: Meeting, keep: Callable[[Record], None]
    ) -> Record | None:
        record = Record(scenario.seed, objects, [], [])
        try:
            await self._play_steps(scenario, record, meeting)
            assert not await self._came_back(record), "a node that failed is ready again"
        except NotAtRestError as error:
            record.restless = str(error)
        except AssertionError as error:  # the others go on
            sys.stderr.write(f"{scenario.name}: {error}\n")
            return None
        finally:
            meeting.expect_no_more(scenario.name)
        if self.log.followers[scenario.name].disturbed:
            return None
        keep(record)
        return record

    async def _came_back(self, record: Record) -> bool:
        """Whether a node that failed is ready again: kwok may write its state once more, ten minutes after the last."""
        nodes = [step.job for step in record.steps if step.event == "not ready"]
        return any([_is((await self.api.get(f"{CORE}/nodes/{each}")).made, "Ready") for each in nodes])

    async def _play_steps(self, scenario: Scenario, record: Record, meeting: Meeting) -> None:
        follower = self.log.followers[scenario.name]
        coming, ends, jobs = list(scenario.jobs), dict[str, float](), {each.name: each for each in scenario.jobs}
        while coming or ends:
            if record.jobs:  # Kueue tries heads created in the same second in an order of chance: that of a Go map
                created = datetime.datetime.fromisoformat(record.jobs[-1]["metadata"]["creationTimestamp"])
                until = created + datetime.timedelta(seconds=1.05) - datetime.datetime.now(datetime.UTC)
                await asyncio.sleep(max(0.0, until.total_seconds()))
            await self._settled(scenario.name)
            ending = min(ends, key=lambda name: ends[name], default=None)
            if len(record.steps) == scenario.fails_after:
                step = await self._fail_beside(scenario, record.steps[-1], meeting)
            elif ending is None or (coming and coming[0].arrives <= ends[ending]):
                job, follower.busy = coming.pop(0), True
                step = Step("arrives", job.name, job.arrives)
                await self._arrive(scenario, job, follower, record)
            else:
                follower.busy = True
                step = Step("ends", ending, ends.pop(ending))
                await self._end(jobs[ending], follower)
            await self._settled(scenario.name)
            follower.busy = False
            step.moves, follower.moves = follower.moves, []
            step.cycles, follower.cycles = follower.cycles, []
            if len(step.moves) >= ENDLESS:
                record.steps.append(step)
                record.endless = True
                break
            found = (await self.api.get(WORKLOADS, labelSelector=f"{SCENARIO}={scenario.name}")).made["items"]
            step.holding = {
                each["metadata"]["name"]: _kept(each)
                for each in found
                if _is(each, "QuotaReserved") and not _is(each, "Finished")
            }
            last = {name: at for at, (name, *_) in enumerate(step.moves)}
            step.moves = [each for at, each in enumerate(step.moves)
                          if len(each) > 1 or at < last[each[0]] or each[0] in step.holding]  # fmt: skip
            for name, *by in step.moves:
                if by:
                    del ends[name]
                else:  # what gets another node runs on
                    ends.setdefault(name, step.at + jobs[name].runs)
            assert step.holding.keys() == ends.keys(), (scenario.name, step.job, step.holding.keys(), ends.keys())
            record.steps.append(step)

    async def _settled(self, name: str) -> None:
        follower = self.log.followers[name]
        try:
            async with asyncio.timeout(SETTLE_LIMIT):
                await follower.settled.wait()
        except TimeoutError:
            recent = "; ".join(f"{count} x {', '.join(heads)}" for count, heads in follower.cycles[-MOST_CYCLES:])
            raise NotAtRestError(
                f"Kueue did not come to rest in {SETTLE_LIMIT:.0f} s: awaited {sorted(follower.awaited)}, "
                f"to be released {sorted(follower.releases)}, last cycles {recent}"
            ) from None

    async def _arrive(self, scenario: Scenario, job: Job, follower: Follower, record: Record) -> None:
        self.log.roots[job.name] = scenario.root_cohort(job.queue)
        follower.wait_for(f"create {job.name}")
        record.jobs.append(_kept(await self._create(WORKLOADS, job.body)))

    async def _end(self, job: Job, follower: Follower) -> None:
        follower.wait_for(f"finish {job.name}")
        now = _now()

        def finish(status: Object) -> bool:
            status["conditions"].append({"type": "Finished", "status": "True", "reason": "JobFinished", "message": "",
                                         "lastTransitionTime": now})  # fmt: skip
            return True

        await self._change_status(job.name, finish)

    async def _fail_beside(self, scenario: Scenario, before: Step, meeting: Meeting) -> Step:
        """Wait for the others; then the first for which it is time lets all nodes fail."""
        placed = {name: {values[-1] for one in read_workload(stored).pod_sets for values, _ in one.places}
                  for name, stored in before.holding.items() if _is(stored, "Admitted")}  # fmt: skip
        node = scenario.failing_node(set().union(*placed.values()))
        if node:
            meeting.failing[scenario.name] = scenario.failure, node
            follower = self.log.followers[scenario.name]
            for name in (name for name, nodes in placed.items() if node in nodes):
                follower.wait_for(f"fail {name}")
        meeting.expect_no_more(scenario.name)
        await meeting.all_there.wait()
        async with meeting.one_by_one:
            failing, meeting.failing = meeting.failing, {}
            if failing:
                await asyncio.gather(*(self._fail(*each) for each in failing.values()))
                for name, roots in meeting.roots.items():
                    for root in roots:
                        self.log.followers[name].wait_for(f"move {root}")
                await asyncio.gather(*map(self._settled, meeting.roots))
                self.log.await_calm()
                with suppress(TimeoutError):  # then those that wait say for what
                    async with asyncio.timeout(SETTLE_LIMIT):
                        await self.log.calm.wait()
        return Step(scenario.failure if node else "elsewhere", node, before.at)

    async def _fail(self, failure: str, node: str) -> None:
        path = f"{CORE}/nodes/{node}"
        if failure == "gone":
            await self._delete(path)
        elif failure == "tainted":
            await self._patch(path, {"spec": {"taints": [{"key": "a4-lab/broken", "effect": "NoExecute"}]}})
        else:
            await self._patch(path, {"metadata": {"annotations": LEFT_ALONE}})
            listed = (await self.api.get(path)).made["status"]["conditions"]
            unready = {"status": "False", "reason": "KubeletNotReady", "lastTransitionTime": _now()}
            conditions = [each | unready if each["type"] == "Ready" else each for each in listed]
            await self._patch(f"{path}/status", {"status": {"conditions": conditions}})

            async def given_up() -> bool:  # the last changes that follow, within half a minute
                taints = (await self.api.get(path)).made["spec"].get("taints") or ()
                return {"NoSchedule", "NoExecute"} <= {each["effect"] for each in taints}

            await eventually(given_up, f"node {node} is given up by its controller", SETTLE_LIMIT)

    async def _patch(self, path: str, change: Object) -> None:
        answer = await self.api.send("PATCH", path, change, MERGE_PATCH)
        assert answer.status in (200, 504), answer.body

    async def _remove(self, scenario: Scenario) -> None:
        picked = f"{SCENARIO}={scenario.name}"
        answer = await self.api.delete(WORKLOADS, labelSelector=picked)
        assert answer.status in (200, 504), answer.body
        for each in reversed(scenario.objects):
            await self._delete(f"{_path(each)}/{each['metadata']['name']}")
        answer = await self.api.delete(f"{CORE}/nodes", labelSelector=picked)
        assert answer.status in (200, 504), answer.body


def _path(item: Object) -> str:
    place = f"{KUEUE}/namespaces/{NAMESPACE}" if item["kind"] == "LocalQueue" else KUEUE
    return f"{place}/{PLURALS[item['kind']]}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _is(item: Object, kind: str) -> bool:
    listed = item.get("status", {}).get("conditions", [])
    return any(each["type"] == kind and each["status"] == "True" for each in listed)


def _kept(item: Object) -> Object:
    """Without what only fills a record."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}
