"""What a key in the launch form costs, and what follows when the keys rest."""

import asyncio
import gc
import statistics
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter, process_time
from typing import Any

from console.kube.nested_values import Value
from console.kube.objects.meta import GPU
from console.kube.objects.node import Node
from console.kube.objects.pod import Pod
from console.kube.objects.queue import ClusterQueue, LocalQueue, Quota, ResourceFlavor, Usage
from console.kube.objects.workload import PodSet, Workload
from console.kube.snapshot import Fleet, WatchState, WatchStatus
from console.launch.plan_as_text import PlanTexts
from console.launch.recipes import LaunchPlan
from console.scheduling.launch_forecast import LaunchDemand, forecast
from tests.bench.rows import Bound
from tests.chart.plans import CATALOGUE, offline
from tests.fakes import fleet_of

NODES, PODS = 1000, 10_000
KEYS = 100


def main(say: Callable[[str], None], bound: Bound) -> bool:
    """Figures in milliseconds; true when every bound is kept."""
    biggest = max((recipe.id for recipe in CATALOGUE.recipes()), key=lambda each: len(CATALOGUE.fields(each)))
    say(f"launch form: {biggest} with {len(CATALOGUE.fields(biggest))} fields")
    drafting = PlanTexts(CATALOGUE, offline().render)
    plans = [
        LaunchPlan(biggest, f"anna-{number}", "team", {**_values(), "ttl": 600 + number}) for number in range(KEYS)
    ]
    text = drafting.write_yaml(plans[0])
    good = bound("problems of a plan, p95 (ms)", p95(lambda at: CATALOGUE.plan_problems(plans[at])), 10)
    good &= bound("its notes after them, p95 (ms)", p95(lambda at: CATALOGUE.plan_notes(plans[at % 2])), 10)
    good &= bound("its YAML, p95 (ms)", p95(lambda at: drafting.write_yaml(plans[at])), 10)
    good &= bound("its YAML in a person's text, p95 (ms)", p95(lambda at: drafting.write_yaml(plans[at], text)), 20)
    good &= bound("that YAML read and judged, p95 (ms)", p95(lambda at: drafting.read_yaml(biggest, text)), 10)
    fleets = [_fleet(number) for number in range(6)]
    gc.collect()
    gc.freeze()  # a console has one of these, not six that are searched for garbage
    ask = LaunchDemand("team", "a4", 256, "preferred")
    good &= bound("forecast of a new picture, worst (ms)", max(timed(lambda at: forecast(fleets[at], ask), 5)), 20)
    wishes = [replace(ask, gpus=8 * (at + 1), topology=("preferred", "required")[at % 2]) for at in range(KEYS)]
    good &= bound("forecast on a key, p95 (ms)", p95(lambda at: forecast(fleets[5], wishes[at])), 20)
    good &= bound("render and difference, p95 (ms)", asyncio.run(_renders(drafting, plans)), 100)
    return good


def _values() -> dict[str, Value]:
    return {
        "queue": "a4", "env": {f"NAME_{number}": "value" for number in range(20)},
        "placement": {"avoidNodes": [f"n{number}" for number in range(20)]},
    }  # fmt: skip


async def _renders(drafting: PlanTexts, plans: list[LaunchPlan]) -> float:
    await drafting.diff_with(plans[0])
    times = []
    for plan in plans[:20]:
        begun = perf_counter()
        await drafting.diff_with(replace(plan, name="anna"))
        times.append((perf_counter() - begun) * 1000)
    return statistics.quantiles(times, n=20)[-1]


def timed(work: Callable[[int], object], times: int) -> list[float]:
    """Milliseconds of each, of this process alone: what a neighbour takes is not the form's cost."""
    found = []
    for at in range(times):
        begun = process_time()
        work(at)
        found.append((process_time() - begun) * 1000)
    return found


def p95(work: Callable[[int], object]) -> float:
    """Milliseconds that nineteen of twenty keys stay under."""
    return statistics.quantiles(timed(work, KEYS), n=20)[-1]


def _fleet(seed: int) -> Fleet:
    """A thousand machines in 16 blocks, most of them taken, and ten thousand pods."""
    nodes = [
        Node(f"n{at}", pool="a4", gpus=8, gpu_capacity=8, ready=True, block=f"b{at % 16}", subblock=f"s{at % 64}",
             host=f"h{at}")
        for at in range(NODES)
    ]  # fmt: skip
    pods = [
        Pod("team", f"p{at}", uid=f"p{at}", node=f"n{(at + seed) % NODES}", gpus=8 if at < NODES * 0.7 else 0,
            phase="Running", jobset=f"job-{at // 32}", jobset_uid=f"job-{at // 32}")
        for at in range(PODS)
    ]  # fmt: skip
    groups = (PodSet("w", 32, requests=((GPU, 8),), flavors=((GPU, "a4"),)),)
    jobs = [Workload("team", f"w{at}", uid=f"w{at}", queue="a4", owner_name=f"job-{at}", owner_uid=f"job-{at}",
                     pod_sets=groups) for at in range(200)]  # fmt: skip
    quota = ClusterQueue("a4", quotas=(Quota("a4", GPU, 8000),), reserved=(Usage("a4", GPU, 5600),))
    flavor = ResourceFlavor("a4", node_labels=(("cloud.google.com/gke-nodepool", "a4"),))
    things: list[Any] = [*nodes, *pods, *jobs, quota, flavor, LocalQueue("team", "a4", cluster_queue="a4")]
    return fleet_of(*things, topologies=WatchStatus("topologies", WatchState.LIVE))
