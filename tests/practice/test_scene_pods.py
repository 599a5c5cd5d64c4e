"""Pods of the opening scene have what the chart gives to pods: whoever looks into one finds what a launch will have."""

from dataclasses import replace
from typing import Any

import pytest

from practice.scene.jobs import SceneJob, build_jobset
from tests.chart.test_render import container, environment, jobset, pod

JOB = SceneJob("anna", "own-script", 16, "a4", "medium", "anna")


def nccl(made: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in environment(made).items() if name.startswith("NCCL_")}


@pytest.mark.parametrize("gpus", [2, 16])
@pytest.mark.parametrize("recipe", ["own-script", "nccl-all-reduce"])
async def test_the_environment_of_nccl_is_the_charts(recipe: str, gpus: int) -> None:
    script = {"recipe": {"script": {"text": "true"}}} if recipe == "own-script" else {}
    of_chart = await jobset(recipe, gpus=gpus, **script)
    of_scene = build_jobset(replace(JOB, recipe=recipe, gpus=gpus))
    assert nccl(of_scene) == nccl(of_chart)
    folders = {each["name"]: each["mountPath"] for each in container(of_chart)["volumeMounts"]}
    made = {each["name"]: each["mountPath"] for each in container(of_scene)["volumeMounts"]}
    assert made == {name: folders[name] for name in ("shm", "gib", "third-party")}
    volumes = [each for each in pod(of_chart)["volumes"] if each["name"] in made]
    assert pod(of_scene)["volumes"] == volumes
