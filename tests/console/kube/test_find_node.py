"""Nodes by their short names."""

import pytest

from console.errors import BadInput
from console.kube.find_job import find_node
from console.kube.objects.node import Node

CLUSTER = "gke-practice"
NAMES = (
    f"{CLUSTER}-a4-highgpu-8g-a4-pool-79c66879-0011", f"{CLUSTER}-a4-highgpu-8g-a4-pool-79c66879-0012",
    f"{CLUSTER}-a4-spot-79c66879-0011", f"{CLUSTER}-a4-pool-big-79c66879-0013", "gke-train-a4-pool-0015",
)  # fmt: skip
NODES = {("", name): Node(name) for name in NAMES}


@pytest.mark.parametrize(
    ("word", "at"),
    [
        (NAMES[0], 0), ("a4-pool/0011", 0), ("a4-spot/0011", 2), ("0012", 1), ("a4-pool/0013", None),
        ("pool-big/0013", 3), ("a4-pool/0015", 4), ("0099", None), ("", None), ("a4-pool/", None), ("pool/0011", 0),
        ("a4.pool/0011", None),
    ],
)  # fmt: skip
def test_a_node_is_found_by_the_name_that_screens_show(word: str, at: int | None) -> None:
    found = find_node(NODES, word)
    assert (found and found.name) == (None if at is None else NAMES[at])


def test_an_end_that_several_names_have_is_refused_with_these_names() -> None:
    with pytest.raises(BadInput, match=f"0011 is the end of several nodes' names: {NAMES[0]}, {NAMES[2]}."):
        find_node(NODES, "0011")
