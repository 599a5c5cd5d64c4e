"""Manifests of every recipe, as they are kept; A4_WRITE_GOLDEN=1 writes them anew, to be read in the diff."""

import os
from pathlib import Path

import pytest

from tests.chart.plans import CATALOGUE, PLANS, offline

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", PLANS)
async def test_manifests_are_the_golden_ones(name: str) -> None:
    manifests = await offline().render(PLANS[name])
    # The launchers' text is the launchers' own business.
    kept = "---\n".join(manifest.text for manifest in manifests if manifest.kind != "ConfigMap")
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("A4_WRITE_GOLDEN"):
        file.write_text(kept)
    assert kept == file.read_text(), f"{file} differs; A4_WRITE_GOLDEN=1 writes it anew"


def test_every_recipe_has_golden_manifests() -> None:
    assert {recipe.id for recipe in CATALOGUE.recipes()} == {plan.recipe for plan in PLANS.values()}
    assert {file.stem for file in GOLDEN.iterdir()} == set(PLANS)
