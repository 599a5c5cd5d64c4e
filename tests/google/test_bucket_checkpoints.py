"""Checkpoints in a bucket: few requests for many objects."""

import json
import struct
import time

from console.checkpoints.completeness import CheckpointState
from console.checkpoints.reader import SAFETENSORS_HEAD_BYTES, survey_bucket
from console.google.bucket_paths import GcsPlace
from practice.google.bucket_store import BUCKET, BucketStore
from tests.google.practised import google

STEPS, SHARDS = 3, 60


def shard(number: int, *, padding: int = 0) -> bytes:
    table = {f"layer.{number}": {"dtype": "BF16", "shape": [4], "data_offsets": [0, 8]}}
    head = json.dumps(table).encode() + b" " * padding
    return struct.pack("<Q", len(head)) + head + bytes(8)


async def test_each_shard_takes_one_request_and_those_with_long_headers_two() -> None:
    old = time.time() - 86_400
    names = [f"model-{number:05}-of-{SHARDS:05}.safetensors" for number in range(1, SHARDS + 1)]
    async with google() as (session, world):
        world.page = 1000
        vault = world.service_state(BucketStore)
        for step in range(STEPS):
            folder = f"big/checkpoint-{step}"
            for number, name in enumerate(names):
                content = shard(number, padding=2 * SAFETENSORS_HEAD_BYTES if number == 7 else 0)
                cut = 1 if (step, number) in {(1, 7), (1, 50)} else 0
                vault.put(BUCKET, f"{folder}/{name}", content[: len(content) - cut], moment=old)
            index = {"weight_map": {f"layer.{number}": name for number, name in enumerate(names)}}
            vault.put(BUCKET, f"{folder}/model.safetensors.index.json", json.dumps(index).encode(), moment=old)
        world.calls.clear()
        found = await survey_bucket(session.google.storage, GcsPlace(BUCKET, "big/"), time.time())
        asked = [method for method, _ in world.calls]
    assert [each.state for each in found.checkpoints] == [
        CheckpointState.COMPLETE, CheckpointState.INCOMPLETE, CheckpointState.COMPLETE,
    ]  # fmt: skip
    assert [problem.partition(" ")[0] for problem in found.checkpoints[1].problems] == [names[7], names[50]]
    assert sum("ReadObject" in each for each in asked) == STEPS * (SHARDS + 1 + 1), "with the index, and a long header"
    assert sum("ListObjects" in each for each in asked) == 1
