"""Changes on a cluster: a child process that patches pods at a steady rate, so that its own CPU is nobody's."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHANGES_PER_SECOND = 60


@contextmanager
def churn(kubeconfig: Path) -> Iterator[None]:
    """About 60 pods a second change for as long as the block runs."""
    child = subprocess.Popen([sys.executable, "-m", "tests.bench.churn", str(kubeconfig)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # it has begun
    try:
        yield
    finally:
        child.terminate()
        child.wait()
        child.stdout.close()


async def change_pods(kubeconfig: Path) -> None:
    """Patch an annotation of one pod after the other until killed."""
    from kubernetes.aio import client, config

    await config.load_kube_config(str(kubeconfig))
    async with client.ApiClient() as api:
        core = client.CoreV1Api(api)
        listed = await core.list_pod_for_all_namespaces(limit=500)
        found = [pod.metadata for pod in listed.items if pod.metadata is not None]
        pods = [(str(each.name), str(each.namespace)) for each in found]
        sys.stdout.write("changing\n")
        sys.stdout.flush()
        start = time.perf_counter()
        for number in range(10**9):
            name, namespace = pods[number % len(pods)]
            change = {"metadata": {"labels": {"bench/turn": str(number)}}}
            await core.patch_namespaced_pod(name, namespace, change)
            ahead = number / CHANGES_PER_SECOND - (time.perf_counter() - start)
            if ahead > 0:
                await asyncio.sleep(ahead)


if __name__ == "__main__":
    asyncio.run(change_pods(Path(sys.argv[1])))
