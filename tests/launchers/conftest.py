"""A pod for every test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import pytest
import yaml

from console.kube.nested_values import Value
from console.launch.recipes import LaunchPlan
from tests.chart.plans import offline
from tests.launchers.sandbox import Sandbox


class Launch(Protocol):
    """Renders a recipe with these values and gives one pod of it, as the chart sets it up."""

    def __call__(self, recipe: str, index: int = 0, /, **values: Value) -> Sandbox: ...


@pytest.fixture
def pod(tmp_path: Path) -> Sandbox:
    """Index 0 of two nodes."""
    return Sandbox(tmp_path / "pod")


@pytest.fixture
def worker(tmp_path: Path) -> Sandbox:
    """Index 1 of two nodes."""
    return Sandbox(tmp_path / "pod", index=1)


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    """Pods with the environment that the chart gives them; pods of one test share /mnt and /lustre."""

    def make(recipe: str, index: int = 0, /, **values: Value) -> Sandbox:
        made = Sandbox(tmp_path / f"pod-{index}", index=index)
        made.environment = asyncio.run(rendered(recipe, values)) | {"JOB_COMPLETION_INDEX": str(index)}
        for share in ("mnt", "lustre"):
            (tmp_path / share).mkdir(exist_ok=True)
            (made.root / share).symlink_to(tmp_path / share)
        return made

    return make


async def rendered(recipe: str, values: dict[str, Value]) -> dict[str, str]:
    manifests = await offline().render(LaunchPlan(recipe, "anna", "team", values))
    jobset = next(yaml.safe_load(manifest.text) for manifest in manifests if manifest.kind == "JobSet")
    pod = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    given = {entry["name"]: entry["value"] for entry in pod["containers"][0]["env"] if "value" in entry}
    return given | {"JOB_IDENTIFIER": "anna-1", "A4_PLACED_BY": "", "A4_DISCOVERY_SECONDS": "20"}
