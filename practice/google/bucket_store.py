"""The contents of practice buckets: result trees, checkpoints, logs, and uploads."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from practice.google.cloud import PROJECT, SHARED, PracticeGoogle
from practice.node import buckets
from practice.node.pod_volumes import StoredFile

BUCKET, FAR = buckets.OWN, buckets.FAR  # a bucket beside the cluster, and one in another region
DATASETS = buckets.DATASETS
RUN = "pretrain-mcore-qwen3-moe-megatron-A3B-lr-1e-5-minlr-1e-6-bs-1-gbs-64-seqlen-1024"
_OUTPUT = "logs/output_mcore_qwen3_pretrain"
DAY = 86400.0


@dataclass(slots=True)
class BucketState:
    """A bucket of practice Google with its objects and settings."""

    name: str
    project: str
    location: str
    location_type: str
    created: float
    objects: dict[str, StoredFile] = field(default_factory=dict)
    bindings: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # role and members


class BucketStore:
    """The buckets of practice Google, by name."""

    def __init__(self, google: PracticeGoogle) -> None:
        self.world = google
        self.damaged: set[str] = set()  # objects whose next bytes come with an error in them
        self.uploads: dict[str, tuple[str, str, str, bytearray, int | None]] = {}
        """(bucket, object, content type, bytes so far, required generation or None) of uploads in progress."""
        now, known = google.opening, google.buckets.bindings
        self.buckets = {
            name: BucketState(name, project, location, kind, now - days * DAY, bindings=known[name])
            for name, project, location, kind, days in (
                (BUCKET, PROJECT, "US-CENTRAL1", "region", 90),
                (DATASETS, PROJECT, "US", "multi-region", 200),
                (FAR, PROJECT, "EUROPE-WEST4", "region", 400),
                (buckets.SHARED, SHARED, "US-CENTRAL1", "region", 10),
            )
        }
        for each in self.buckets.values():
            each.objects = google.buckets.volumes.files("bucket", each.name)
        self._add_seed_data()

    def add(self, made: BucketState) -> None:
        """Add a new bucket, for Google's API and for nodes that mount it."""
        self.buckets[made.name] = made
        made.objects = self.world.buckets.volumes.files("bucket", made.name)
        self.world.buckets.bindings[made.name] = made.bindings

    def put(self, bucket: str, name: str, content: bytes, kind: str = "", moment: float | None = None) -> StoredFile:
        now = self.world.clock.now() if moment is None else moment
        return self.world.buckets.volumes.put(("bucket", bucket), name, content, now, kind)

    def _add_seed_data(self) -> None:
        chance = random.Random(25)
        now = self.world.opening
        checkpoints = f"{_OUTPUT}/checkpoint/{RUN}"
        for iteration in (500, 1000, 1500):
            for rank in range(2):
                name = f"{checkpoints}/iter_{iteration:07}/mp_rank_00_{rank:03}/model_optim_rng.pt"
                whole = (
                    b"PK\3\4" + chance.randbytes(300_000 - 26) + b"PK\5\6" + bytes(18)
                )  # as torch.save begins and ends
                half = iteration == 1500 and rank
                self.put(BUCKET, name, whole[:120_000] if half else whole, moment=now - (2000 - iteration) * 10)
        # The last one was being written when its job ended: the marker names the one before.
        self.put(BUCKET, f"{checkpoints}/latest_checkpointed_iteration.txt", b"1000", "text/plain", now - 9000)
        events = f"{_OUTPUT}/tensorboard/{RUN}_2026.11.20-09.12.44/events.out.tfevents.1795165964.qwen3-workload-0-1"
        self.put(BUCKET, events, chance.randbytes(80_000), moment=now - 5000)
        self.put(
            BUCKET, f"{_OUTPUT}/log/qwen3.log", b"iteration 1000/ 10000 | lm loss: 2.104E+00\n" * 200, "text/plain"
        )
        for number in range(12):
            self.put(BUCKET, f"datasets/mmap_qwen3_datasets_text_document-{number:02}.idx", chance.randbytes(2_000))
        self.put(FAR, "old/checkpoint.tar", chance.randbytes(50_000), moment=now - 300 * DAY)
