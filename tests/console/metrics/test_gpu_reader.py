"""Where GPUs are read when nvidia-smi may not be run: the DCGM exporter of the node, through the API server."""

import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from console.errors import NotAllowed, NotFound
from console.kube.objects.pod import Pod
from console.metrics.gpu_reader import GpuReader
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

JOB = jobset("train", 2)
POD = json.dumps({"spec": {"containers": [{"name": "a"}, {"ports": [{"name": "metrics", "containerPort": 9401}]}]}})
TEXT = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",modelName="NVIDIA B200"} 97\nDCGM_FI_DEV_GPU_TEMP{gpu="0",modelName="B200"} 61\n'


class Cluster:
    """A watched cluster in read-only mode, whose node-0 has an exporter."""

    read_only = True

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.text = TEXT
        exporter = Pod("gke-managed-system", "dcgm-exporter-x7k", uid="e", phase="Running", node="node-0")
        pods = [rank(JOB, number, f"node-{number}") for number in range(2)]
        self.fleet = fleet_of(JOB, *pods, exporter)
        self.current_connection = SimpleNamespace(client=self)

    def connection_for_change(self, action: str) -> None:
        raise NotAllowed(action)

    async def request(self, method: str, path: str, **_: object) -> bytes:
        self.asked.append((method, path))
        return (self.text if path.endswith("/proxy/metrics") else POD).encode()


async def test_read_only_reads_the_exporter_of_the_node() -> None:
    cluster = Cluster()
    board = await GpuReader(cast("Any", cluster)).read_once("default", "train")
    exporter = "/api/v1/namespaces/gke-managed-system/pods/dcgm-exporter-x7k"
    assert cluster.asked == [("GET", exporter), ("GET", f"{exporter}:9401/proxy/metrics")]
    first, second = board.ranks
    assert (first.source, first.gpus[0].utilization, first.gpus[0].temperature) == ("dcgm", 97, 61)
    assert second.problem.startswith("In read-only mode GPUs are read from a DCGM exporter")


async def test_a_job_that_is_not_there_has_no_gpus() -> None:
    with pytest.raises(NotFound, match="no job other"):
        await GpuReader(cast("Any", Cluster())).read_once("default", "other")


async def test_of_a_shared_node_the_own_gpus_are_shown() -> None:
    cluster = Cluster()
    pod = next(each for each in cluster.fleet.pods.values() if each.node == "node-0" and each.jobset)
    cluster.text = "".join(
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",namespace="{pod.namespace}",pod="{name}"}} 9\n'
        for gpu, name in enumerate(("other", pod.name, pod.name))
    )
    gpus = GpuReader(cast("Any", cluster))
    assert gpus.exporter_of("default", "train") == "dcgm-exporter-x7k"
    first, second = (await gpus.read_once("default", "train", source="dcgm")).ranks
    assert [gpu.index for gpu in first.gpus] == [1, 2]
    assert second.problem == "There is no DCGM exporter on this node."


def test_the_exporter_of_a_job_is_found_on_its_nodes_alone() -> None:
    job, cluster = jobset("large", 64), Cluster()
    others = [Pod("default", f"other-{number}", uid=f"{number}", node=f"other-{number}") for number in range(20_000)]
    cluster.fleet = fleet_of(job, *(rank(job, number, f"node-{number}") for number in range(64)), *others)
    begun = time.process_time()
    assert cluster.fleet.pods_by_node
    once = time.process_time() - begun
    begun = time.process_time()
    assert GpuReader(cast("Any", cluster)).exporter_of("default", "large") == ""
    assert time.process_time() - begun < 2 * once + 0.005
