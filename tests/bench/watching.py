"""What it costs to watch 32 running jobs of 16 ranks: processor time of the console, beside kubectl in the same run.

The practice cluster runs in a process of its own; each job prints a step a second. The console stands on its list of
jobs in a terminal, as a person leaves it open. kubectl does the least that shows as much: it watches the pods, and
follows the log of one pod of each job.
"""

import asyncio
import copy
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from practice.programs.launcher_stages import SCRIPT, TRAINS
from practice.scene.jobs import SceneJob, build_jobset
from tests.bench.consoles import A4
from tests.bench.rows import Bound, Ratio
from tests.bench.terminal import Terminal, cpu_of
from tests.contract.client import Api
from tests.contract.cluster import CORE, JOBSETS, Cluster, eventually, practice_cluster
from tests.contract.space import BLOCK, Space

JOBS, PODS = 32, 2
NAMESPACE = "bench"
LONG = {"PRACTICE_PACE": "1.0", "A4_TRAIN_ITERATIONS": "100000"}
SETTLES, MEASURED = 60.0, 120.0
"""Seconds until the logs of before are read, and seconds that are measured."""
KUBECTL = "kubectl"
LIMIT = 10.0
"""Percent of a core."""


def main(bound: Bound, ratio: Ratio) -> bool:
    """Both at once, so that what else the machine does hits both alike."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        cluster = stack.enter_context(practice_cluster(folder, speed=1))
        first_pods = asyncio.run(start_jobs(cluster))
        environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "XDG_STATE_HOME": str(folder / "state"),
                       "XDG_CONFIG_HOME": str(folder / "config"), "A4_NOTIFY": "0"}  # fmt: skip
        terminal = stack.enter_context(Terminal((str(A4),), environment))
        terminal.wait("the first screen", lambda text: "● live" in text, 60)
        terminal.write(b"A")
        terminal.wait("every job is watched", lambda text: f"Alarms watch {JOBS} of {JOBS} running jobs" in text, 120)
        terminal.write(b"3")
        terminal.wait("the steps of all jobs", lambda text: text.count(" left") >= JOBS, 120)
        beside = [
            stack.enter_context(_running([KUBECTL, *argv], environment))
            for argv in (
                ["get", "pods", "-A", "--watch"],
                *(["logs", "-f", "--tail", "1", "-n", NAMESPACE, pod] for pod in first_pods),
            )
        ]
        _read_for(terminal, SETTLES)
        before = terminal.cpu(), sum(cpu_of(each.pid) for each in beside)
        passed = _read_for(terminal, MEASURED)
        ours = 100 * (terminal.cpu() - before[0]) / passed
        theirs = 100 * (sum(cpu_of(each.pid) for each in beside) - before[1]) / passed
        ended = [each.args for each in beside if each.poll() is not None]
        assert not ended, f"these ended: {ended}"
        good = bound(f"watching {JOBS} jobs (% of a core)", ours, LIMIT)
        return ratio("  beside kubectl", ours, theirs, None) and good


def name(at: int) -> str:
    return f"train-{at:02d}"


async def start_jobs(cluster: Cluster) -> list[str]:
    """Machines for all of them, and the jobs; the first pod of each, which prints the steps, once all pods run."""
    async with Api.open(cluster.kubeconfig) as api:
        space = Space(api, cluster, NAMESPACE)
        await space.open()
        await add_machines(api, JOBS * PODS)
        await space.queue("q", 8 * PODS * JOBS)
        for at in range(JOBS):
            job = SceneJob(
                name(at), "own-script", 8 * PODS, "q", "medium", "you", namespace=space.name,
                topology=("preferred", BLOCK), env=LONG, notes={SCRIPT: TRAINS},
            )  # fmt: skip
            assert (await api.create(space.path(JOBSETS, "jobsets"), build_jobset(job))).status == 201

        async def run() -> bool:
            pods = await space.items(CORE, "pods")
            return len([pod for pod in pods if pod["status"].get("phase") == "Running"]) == JOBS * PODS

        await eventually(run, f"{JOBS * PODS} pods run", limit=180)
        index = "batch.kubernetes.io/job-completion-index"
        return [pod["metadata"]["name"] for pod in await space.items(CORE, "pods", labelSelector=f"{index}=0")]


async def add_machines(api: Api, wanted: int) -> None:
    """Nodes like those of the reserved pool, until there are enough."""
    known = (await api.get(f"{CORE}/nodes", labelSelector="cloud.google.com/machine-family=a4")).made["items"]
    like = next(node for node in known if "cloud.google.com/gke-spot" not in node["metadata"]["labels"])
    for number in range(wanted):
        node = copy.deepcopy(like)
        old, new = node["metadata"]["name"], f"gke-bench-{number:04d}"
        labels = {key: value.replace(old, new) for key, value in node["metadata"]["labels"].items()}
        labels |= {f"cloud.google.com/gce-topology-{level}": f"bench-{number // each}"
                   for level, each in (("block", 8), ("subblock", 4), ("host", 1))}  # fmt: skip
        node["metadata"] = {"name": new, "labels": labels, "annotations": node["metadata"].get("annotations", {})}
        assert (await api.create(f"{CORE}/nodes", node)).status == 201


@contextmanager
def _running(argv: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.terminate()


def _read_for(terminal: Terminal, seconds: float) -> float:
    """Read its screen for so long, so that it never waits for its terminal; how long it was."""
    start = time.perf_counter()
    while (passed := time.perf_counter() - start) < seconds:
        terminal.read(min(0.25, seconds - passed))
    return passed
