"""One cluster under test, and a namespace in it with what the tests put there."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Protocol, TypeVar

from tests.contract.client import MERGE_PATCH, Api, Object
from tests.lab.control_plane import Lab

T = TypeVar("T")
CORE = "/api/v1"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
BATCH = "/apis/batch/v1"
LIMIT = 60.0
"""Seconds a cluster may take for anything; most takes milliseconds."""
POOL = "cloud.google.com/gke-nodepool"


class AppendLog(Protocol):
    """Makes a container print lines."""

    async def __call__(self, api: Api, namespace: str, pod: str, container: str, lines: list[str]) -> None: ...


class SetFairSharing(Protocol):
    """Turns fair sharing on, by what Kueue's configuration says of it, or off where it says nothing."""

    async def __call__(self, api: Api, fair_sharing: Object | None) -> None: ...


class DrawLog(Protocol):
    """Makes a container print a part of a line."""

    async def __call__(self, api: Api, namespace: str, pod: str, container: str, text: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where it is reached, and the one thing that cannot be done through the API: what a container prints."""

    name: str
    kubeconfig: Path
    reader_kubeconfig: Path
    reader: str
    """The name of the account that may only look."""
    programs: bool
    """Whether pods of the project's recipes run and print by themselves, as they do where there are GPUs."""
    append_log: AppendLog
    draw_log: DrawLog
    set_fair_sharing: SetFairSharing
    check: Callable[[], None]
    """Raises when a part of the cluster has died."""


def real_cluster(lab: Lab) -> Cluster:
    async def append(api: Api, namespace: str, pod: str, container: str, lines: list[str]) -> None:
        path = f"{CORE}/namespaces/{namespace}/pods/{pod}/log"

        async def served() -> bool:
            # The lab notices a pod a moment after it runs, and only then is there a log to serve.
            return (await api.get(path, container=container)).status == 200

        await eventually(served, f"the log of {pod} is served")
        lab.logs.append(namespace, pod, container, lines)

    async def draw(api: Api, namespace: str, pod: str, container: str, text: str) -> None:
        lab.logs.draw(namespace, pod, container, text)

    async def set_fair_sharing(api: Api, fair_sharing: Object | None) -> None:
        lab.configure_kueue(fair_sharing)  # in this thread: what a thread starts dies with it

    return Cluster(
        "lab", lab.kubeconfig, lab.reader_kubeconfig, "reader", False, append, draw, set_fair_sharing,
        lab.processes.check,
    )  # fmt: skip


async def _annotate_log(api: Api, namespace: str, pod: str, container: str, lines: list[str]) -> None:
    await _annotate_text(api, namespace, pod, container, "".join(f"{line}\n" for line in lines))


async def _annotate_text(api: Api, namespace: str, pod: str, container: str, text: str) -> None:
    """A pod of the practice cluster prints what this annotation holds beyond what it printed already."""
    path = f"{CORE}/namespaces/{namespace}/pods/{pod}"
    metadata = (await api.get(path)).made["metadata"]
    text = metadata.get("annotations", {}).get("a4-lab/log", "") + text
    change = {"metadata": {"annotations": {"a4-lab/log": text}}}
    assert (await api.send("PATCH", path, change, MERGE_PATCH)).status == 200


async def _configure_kueue(api: Api, fair_sharing: Object | None) -> None:
    """The practice cluster reads Kueue's ConfigMap whenever it decides."""
    path = f"{CORE}/namespaces/kueue-system/configmaps"
    await api.delete(f"{path}/kueue-manager-config")
    if fair_sharing is not None:
        data = {"controller_manager_config.yaml": json.dumps({"fairSharing": fair_sharing})}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kueue-manager-config"}, "data": data}
        assert (await api.create(path, body)).status == 201


@contextmanager
def practice_cluster(folder: Path, speed: float = 10) -> Iterator[Cluster]:
    command = [sys.executable, "-m", "practice", "--scene", "empty", "--speed", f"{speed:g}", "--folder", str(folder)]
    errors = folder / "errors.log"
    with errors.open("w") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:

        def check() -> None:
            ended = f"{' '.join(command)} ended with exit code {process.poll()}: {errors.read_text()[-2000:]}"
            assert process.poll() is None, ended

        assert process.stdout is not None
        said = next((line for line in process.stdout if line.startswith("KUBECONFIG=")), None)
        if said is None:
            process.wait()
            check()
        assert said is not None, f"{' '.join(command)} named no kubeconfig"
        kubeconfig = Path(said.strip().removeprefix("KUBECONFIG="))
        name = "practice-reader"
        try:
            yield Cluster(
                "practice",
                kubeconfig,
                kubeconfig.with_name("reader.kubeconfig"),
                name,
                True,
                _annotate_log,
                _annotate_text,
                _configure_kueue,
                check,
            )
        finally:
            process.terminate()


async def eventually(probe: Callable[[], Awaitable[T]], what: str, limit: float = LIMIT) -> T:
    """What the probe gives once it gives something true."""
    deadline = monotonic() + limit
    while not (result := await probe()):
        assert monotonic() < deadline, f"not within {limit:.0f} s: {what}"
        await asyncio.sleep(0.05)
    return result


async def soon(true: Callable[[], object], what: str, limit: float = LIMIT) -> None:
    """Wait until it is so."""

    async def probe() -> bool:
        return bool(true())

    await eventually(probe, what, limit)
