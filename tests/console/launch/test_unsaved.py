"""What is lost of the work of jobs whose node is taken out of service."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

from msgspec import structs

from console.launch.launcher import LaunchService
from console.metrics.seen_time import Span, SpanKind
from console.scheduling.what_if import Consequence, WhatIf
from tests.screens.scene import scene


async def test_of_each_job_on_a_node_it_is_said_what_is_in_no_checkpoint_of_all_its_gpus() -> None:
    now = time.time()
    spans = [
        Span(now - 3600, now - 3000, SpanKind.FIRST, 0, 1),
        Span(now - 3000, now, SpanKind.STEPS, 1, 50),
        Span(now - 1800, now - 1800, SpanKind.SAVED, 20, 20),
    ]
    asked: list[tuple[str, str]] = []

    def spans_of(namespace: str, name: str) -> list[Span]:
        asked.append((namespace, name))
        return spans

    fleet = scene()
    launch = LaunchService(cast("Any", SimpleNamespace(fleet=fleet)), lambda *_: (), spans_of)
    node = next(pod.node for pod in fleet.pods.values() if pod.jobset == "llama-70b")
    assert await launch.list_unsaved(node) == [
        "llama-70b: the work since step 20 was saved 30 min ago: 32.0 GPU-hours"  # of its 64 GPUs, not of the node's 8
    ]
    assert asked == [("default", "llama-70b")]
    assert await launch.list_unsaved("gke-train-system-0") == [], "a pod of no job loses no work"


async def test_a_drain_tells_of_each_job_that_it_would_end_what_is_in_no_checkpoint() -> None:
    now = time.time()
    known = {
        "llama-70b": [
            Span(now - 3600, now, SpanKind.STEPS, 1, 50), Span(now - 1800, now - 1800, SpanKind.SAVED, 20, 20)
        ],
        "nccl-0412": [],
    }  # fmt: skip

    class Runs:
        async def read_spans(self, namespace: str, name: str) -> list[Span]:
            return []

    fleet = scene()
    launch = LaunchService(cast("Any", SimpleNamespace(fleet=fleet)), lambda *_: (), lambda _, name: known[name])
    vars(launch)["runs"] = Runs()
    ended = Consequence("llama-70b", "default", "a4", 64, "leaves", position=1)
    told = await launch.add_losses(
        WhatIf((ended, structs.replace(ended, job="nccl-0412"), structs.replace(ended, what="starts")), (), (), None)
    )
    assert [each.lost for each in told.consequences] == [
        "the work since step 20 was saved 30 min ago: 32.0 GPU-hours", "no checkpoint known", "",
    ]  # fmt: skip
