"""Answers of Google that no version of its library knows, or that are none: one sentence, and the rest goes on."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest

from console.errors import Unreadable
from console.google.storage import GcsPlace
from practice.google import storage
from practice.google.bucket_store import BUCKET, BucketStore
from tests.google.practised import google

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.slow(reason="starts Google's libraries and a practice cluster for each answer")
@pytest.mark.parametrize("fields", [
    {"size": "-5"}, {"size": "abc"}, {"size": str(10**30)}, {"updated": "yesterday\x1b[2J"}, {"generation": "../../x"},
    {"name": None}, {"name": 7},
])  # fmt: skip
async def test_a_listing_of_a_bucket_that_cannot_be_read_is_refused_in_words(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_json = storage._object_json
    async with google() as (session, world):
        world.service_state(BucketStore).put(BUCKET, "runs/a", b"x")
        monkeypatch.setattr(storage, "_object_json", lambda *found: as_json(*found) | fields)
        place, reach = GcsPlace(BUCKET, "runs/"), session.google.storage
        for look in (reach.list_folder(place), reach.fetch_folder(place, tmp_path)):
            with pytest.raises(Unreadable, match="what Google answers cannot be read") as caught:
                await look
            assert caught.value.message.isprintable()


@pytest.mark.slow(reason="imports Google's libraries")
def test_a_state_that_google_has_added_since_is_shown_by_its_number() -> None:
    from google.cloud import container_v1
    from google.cloud.devtools import cloudbuild_v1

    from console.google.api.build import parse_build
    from console.google.api.container import parse_cluster, parse_operation, parse_pool

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library warns of each
        pool = container_v1.NodePool(status=77, config={"taints": [{"key": "k", "effect": 9}]})
        operation = container_v1.Operation(status=77, operation_type=88)
        cluster, build = container_v1.Cluster(status=77, node_pools=[pool]), cloudbuild_v1.Build(status=77)
        states = [each.status for each in (parse_cluster("p", cluster), parse_pool(pool), parse_build("l", build))]
        assert states == ["77", "77", "77"]
        assert parse_operation("p", operation).kind == "88"
