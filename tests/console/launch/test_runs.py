"""What a session knows of earlier runs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from console.launch.run_record import Outcome, RunRecord
from console.launch.runs import Runs

if TYPE_CHECKING:
    from pathlib import Path

SERVER = "https://10.0.0.1"
RUN = RunRecord("qwen3-sft", "one", "team", server=SERVER, launched=1000.0, gpus=16, outcome=Outcome.SUCCEEDED)


async def test_what_is_usual_is_told_by_ended_runs_of_the_recipe_on_as_many_gpus_of_this_cluster(
    tmp_path: Path,
) -> None:
    target = SimpleNamespace(cluster=SimpleNamespace(practice_folder=tmp_path, server=SERVER))
    cluster = SimpleNamespace(current_connection=SimpleNamespace(target=target))
    runs = Runs(cast("Any", cluster), cast("Any", None), cast("Any", None))
    for each in (
        replace(RUN, tflops=850.0),
        replace(RUN, tflops=860.0, outcome=Outcome.STOPPED),
        replace(RUN, tflops=180.0, outcome=Outcome.RUNNING),
        replace(RUN, tflops=400.0, gpus=32),
        replace(RUN, tflops=300.0, recipe="swift-dpo"),
        replace(RUN, tflops=200.0, server="https://10.0.0.2"),
        replace(RUN, tokens_per_s=9_000.0),
        RUN,
    ):
        await runs.history.add_run(each)
    assert sorted(await runs.earlier_speeds("qwen3-sft", 16, "tflops_per_gpu")) == [850.0, 860.0]
    assert list(await runs.earlier_speeds("qwen3-sft", 32, "tflops_per_gpu")) == [400.0]
    assert list(await runs.earlier_speeds("qwen3-sft", 8, "tflops_per_gpu")) == []
    assert list(await runs.earlier_speeds("qwen3-sft", 16, "tokens_per_s")) == [9_000.0]
    await runs.history.close()
