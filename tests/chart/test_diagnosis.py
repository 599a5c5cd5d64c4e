"""The switch `diagnosis`: each recipe gets what a4 hang and a4 slow need, and nothing of it when it is off."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from console.kube.nested_values import merge_values
from rankscope import probe
from tests.bench.ranks.pods import diagnosis_env
from tests.chart.plans import PLANS, offline
from tests.chart.test_render import environment
from tests.chart.test_schema import LEAVES

VARIABLES = {
    "NCCL_RAS_ENABLE", "TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_TIMING", probe.RECORDER_PIPE_VARIABLE,
    *probe.DUMP_FILE_VARIABLES,
}  # fmt: skip


async def variables(name: str, **values: Any) -> dict[str, Any]:
    plan = PLANS[name]
    manifests = await offline().render(replace(plan, values=merge_values(plan.values, values)))
    (made,) = (yaml.safe_load(each.text) for each in manifests if each.kind == "JobSet")
    return environment(made)


@pytest.mark.slow(reason="renders the whole chart by Helm again and again", fast_rows=7)
@pytest.mark.parametrize("name", PLANS)
async def test_every_recipe_has_them_and_off_leaves_nothing(name: str) -> None:
    on, off = await variables(name, diagnosis=True), await variables(name, diagnosis=False)
    assert on.keys() - off.keys() == VARIABLES
    assert off.items() <= on.items()


async def test_a_person_s_own_value_wins() -> None:
    own = await variables("own-script", env={"TORCH_FR_BUFFER_SIZE": "9"})
    assert own["TORCH_FR_BUFFER_SIZE"] == "9"
    assert own[probe.RECORDER_PIPE_VARIABLE] == "/tmp/a4-recorder-"


def test_each_variable_is_named_where_the_switch_is_explained() -> None:
    assert {each for each in VARIABLES if each not in LEAVES["diagnosis"]["description"]} == set()


def test_the_processes_on_real_gpus_get_what_the_chart_sets() -> None:
    assert diagnosis_env().keys() == VARIABLES
