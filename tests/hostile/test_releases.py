"""Plans from releases that were written by hand end in words; a new attack is a row of `OBJECTS`."""

import base64
import gzip

import pytest

from console.errors import Unreadable
from console.launch.releases import MAX_RELEASE_BYTES, _is_small
from console.launch.stop import persistent_data_of

SMALL, BOMB = gzip.compress(b"{}", mtime=0), gzip.compress(b" " * (MAX_RELEASE_BYTES + 1), mtime=0)


@pytest.mark.parametrize(
    ("packed", "small"),
    [
        pytest.param(SMALL, True, id="one"),
        (BOMB, False),
        (SMALL + BOMB, False),
        (SMALL * 1000, True),
        (BOMB[:-9] + SMALL, False),
        (gzip.compress(BOMB, mtime=0), True),  # Helm unpacks once
        (SMALL + b"no gzip", True),
        (b"no gzip", True),
        (b"", True),
    ],
)
def test_a_release_that_unpacks_to_gigabytes_is_known_before_helm_unpacks_it(packed: bytes, small: bool) -> None:
    assert _is_small(base64.b64encode(base64.b64encode(packed)).decode()) == small


OBJECTS = {
    "a JobSet without a spec": "kind: JobSet\nmetadata: {name: x}\n",
    "a spec of words": "kind: JobSet\nspec: words\n",
    "no list of jobs": "kind: JobSet\nspec: {replicatedJobs: 7}\n",
    "a job without pods": "kind: JobSet\nspec: {replicatedJobs: [{}]}\n",
    "a list": "- kind: JobSet\n",
    "words": "words",
    "nothing": "",
    "no YAML": "{[",
    "nesting without end": "[" * 100_000,
    "volumes of words": "kind: JobSet\nspec: {replicatedJobs: [{template: {spec: {template: {spec: "
    "{containers: [{}], volumes: [words]}}}}}]}\n",
    "a claim of words": "kind: JobSet\nspec: {replicatedJobs: [{template: {spec: {template: {spec: "
    "{containers: [{}], volumes: [{name: a, persistentVolumeClaim: words}]}}}}}]}\n",
}


@pytest.mark.parametrize("attack", OBJECTS)
def test_what_a_forged_release_would_leave_is_not_known(attack: str) -> None:
    with pytest.raises(Unreadable):
        persistent_data_of((OBJECTS[attack],))
