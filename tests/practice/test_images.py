"""Images that nodes pull or cannot pull, in the words of the kubelet and of containerd."""

import pytest

from console.scheduling.why_job import why_no_image
from practice.node.registries import STOCK, Registries
from practice.objects.resources import NODES, PODS
from tests.practice.world import Object, World, container

IMAGE = "us-central1-docker.pkg.dev/practice/a4/mine:1"


def begin(world: World, image: str, name: str = "a", **more: str) -> None:
    node = min(each["metadata"]["name"] for each in world.storage.list(NODES))
    spec = {"containers": [{**container("sleep infinity"), "image": image, **more}], "nodeName": node}
    world.add(PODS, {"metadata": {"name": name}, "spec": spec})


def waiting(world: World, name: str = "a") -> Object:
    found: Object = world.get(PODS, name)["status"]["containerStatuses"][0]["state"].get("waiting", {})
    return found


def test_a_missing_image_is_tried_again_with_growing_pauses_until_it_is_there(world: World) -> None:
    begin(world, IMAGE)
    world.play(3)
    assert waiting(world)["reason"] == "ErrImagePull"
    assert waiting(world)["message"].endswith(f"{IMAGE}: not found")
    world.play(2)
    assert waiting(world)["reason"] == "ImagePullBackOff"
    assert waiting(world)["message"].startswith(f'Back-off pulling image "{IMAGE}": ErrImagePull: rpc error: code = N')
    assert why_no_image("ImagePullBackOff", waiting(world)["message"]) == f"the image {IMAGE} does not exist"
    assert world.events("a", "BackOff") == [f'Back-off pulling image "{IMAGE}"']
    before = len(world.events("a", "Failed"))
    world.play(120)
    assert before
    assert world.get(PODS, "a")["status"]["phase"] == "Pending"
    world.cluster.kubelets.registries.add_image(IMAGE)
    world.play(300)
    assert world.get(PODS, "a")["status"]["phase"] == "Running"


def test_a_pod_that_waits_for_its_image_can_be_deleted(world: World) -> None:
    begin(world, IMAGE)
    world.play(20)
    world.storage.delete(PODS, "default", "a")
    world.play(40)
    assert world.storage.find(PODS, "default", "a") is None


def test_what_a_node_has_is_pulled_no_more_unless_the_pod_says_so(world: World) -> None:
    registries = world.cluster.kubelets.registries
    registries.add_image(IMAGE)
    begin(world, IMAGE)
    world.play(30)
    assert world.get(PODS, "a")["status"]["phase"] == "Running"
    registries.hidden.add(IMAGE.rpartition(":")[0])
    begin(world, IMAGE, "kept")
    begin(world, IMAGE, "anew", imagePullPolicy="Always")
    world.play(30)
    assert world.get(PODS, "kept")["status"]["phase"] == "Running"
    assert "403 Forbidden" in waiting(world, "anew")["message"]
    assert why_no_image("", waiting(world, "anew")["message"]).startswith(
        f"the nodes have no permission to pull {IMAGE}"
    )


@pytest.mark.parametrize(
    ("image", "there"),
    [
        (STOCK[0][0], True),
        (IMAGE, False),
        ("us-central1-docker.pkg.dev/practice/a4/testbed", False),
        ("nvcr.io/nvidia/pytorch:25.06-py3", True),
        ("nvcr.io/nvidia/pytorch:25.99-py3", False),
        ("us-docker.pkg.dev/nobody/nothing/x:1", False),
        ("registry.example/x:1", False),
        ("busybox", True),
        ("docker.io/library/busybox:1.36", True),
        ("busybox:nope", False),
        ("somebody/x:1", False),
        ("ghcr.io/somebody/x:1", False),
    ],
)
def test_what_registries_hold(image: str, there: bool) -> None:
    assert (Registries().pull_error(image) == "") is there


def test_an_image_is_known_by_its_digest_too() -> None:
    registries = Registries()
    registries.add_image(IMAGE, "sha256:12")
    assert registries.pull_error(f"{IMAGE.rpartition(':')[0]}@sha256:12") == ""
    assert registries.pull_error(f"{IMAGE}@sha256:12") == ""
    assert "NotFound" in registries.pull_error(f"{IMAGE.rpartition(':')[0]}@sha256:13")


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ('failed to pull image "x:1": dial tcp 1.2.3.4:443: i/o timeout', "the nodes cannot reach the registry of x:1"),
        ('pull image "x:1": no space left on device', "a node has no disk space for x:1"),
        ("something new", "something new"),
        ("", "ErrImagePull"),
    ],
)
def test_the_trouble_in_words(message: str, words: str) -> None:
    assert why_no_image("ErrImagePull", message) == words
