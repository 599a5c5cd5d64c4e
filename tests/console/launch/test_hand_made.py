"""Which Pods and Services count as a training that was made by hand."""

import json
from typing import Any, cast

import pytest

from console.errors import NotAllowed
from console.kube.client import Client
from console.launch.stop import list_hand_made


class Api:
    """Answers lists."""

    def __init__(self, pods: list[Any] | None, services: list[Any]) -> None:
        self.lists = {"pods": pods, "services": services}

    async def request(self, method: str, path: str, *, action: str, **_: object) -> bytes:
        items = self.lists[path.rpartition("/")[2]]
        if items is None:
            raise NotAllowed("You may not list Pods.", status=403)
        return json.dumps({"items": items}).encode()


def pod(name: str, role: str, phase: str = "Running", **more: Any) -> Any:
    meta = {"name": name, "namespace": "lab", "labels": {"role": role}, **more}
    container = {"resources": {"requests": {"nvidia.com/gpu": 4}, "limits": {"nvidia.com/gpu": "4"}}}
    return {"metadata": meta, "spec": {"containers": [container]}, "status": {"phase": phase}}


def service(name: str, selector: dict[str, str], address: str = "None", **more: Any) -> Any:
    meta = {"name": name, "namespace": "lab", **more}
    return {"metadata": meta, "spec": {"clusterIP": address, "selector": selector}}


async def listed(pods: list[Any] | None, services: list[Any]) -> dict[tuple[str, str], tuple[bool, str]]:
    found, _ = await list_hand_made(cast("Client", Api(pods, services)), "lab")
    return {(each.kind, each.name): (each.runs, each.why) for each in found}


OWNED: dict[str, Any] = {"ownerReferences": [{"kind": "JobSet", "name": "train", "uid": "1"}]}


PODS_OF_OTHERS = (
    pod("training-master", "master", **OWNED), pod("training-worker-1", "master"), pod("trainer", "worker"),
    pod("training-worker-x", "worker"), pod("training-master", "web"),
)  # fmt: skip
SERVICES_OF_OTHERS = (
    service("training-master", {"role": "master"}, **OWNED), service("training-master", {"role": "worker"}),
    service("training-master", {"role": "master"}, "10.0.0.7"), service("megatron", {"app": "web"}),
    service("training-data", {"role": "data"}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("pods", "services"), [*(([each], []) for each in PODS_OF_OTHERS), *(([], [each]) for each in SERVICES_OF_OTHERS)]
)
async def test_what_is_of_others_is_left_alone(pods: list[Any], services: list[Any]) -> None:
    assert await listed(pods, services) == {}


async def test_what_has_ended_is_left_behind_and_what_runs_is_reported() -> None:
    services = [service("training-master", {"role": "master"}), service("training-worker", {"role": "worker"}),
                service("megatron", {"app": "megatron"})]  # fmt: skip
    found = await listed([pod("training-master", "master"), pod("training-worker-1", "worker", "Failed")], services)
    assert found == {
        ("Pod", "training-master"): (True, "Made by hand: it is Running and holds 4 GPUs."),
        ("Pod", "training-worker-1"): (False, "Made by hand: it has ended (Failed)."),
        ("Service", "training-master"): (True, "Made by hand for training-master, which has not ended."),
        ("Service", "training-worker"): (False, "Made by hand: no Pod of it is left that has not ended."),
        ("Service", "megatron"): (False, "Made by hand: no Pod of it is left that has not ended."),
    }


async def test_a_service_whose_pods_may_not_be_seen_may_be_in_use() -> None:
    found, hidden = await list_hand_made(
        cast("Client", Api(None, [service("training-master", {"role": "master"})])), "lab"
    )
    assert [each.runs for each in found] == [True]
    assert hidden == ("Pod",)
