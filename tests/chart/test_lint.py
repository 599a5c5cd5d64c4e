"""Helm's own lint has nothing to say."""

import helm_python
import pytest

from tests.chart.plans import CATALOGUE, PLANS

WARNING = 2


@pytest.mark.parametrize("name", PLANS)
def test_lint(name: str) -> None:
    values = CATALOGUE.chart_values(PLANS[name])
    report = helm_python.lint(CATALOGUE.chart, dict(values), strict=True, kube_version="v1.33.0")
    assert report["errors"] == []
    assert [message for message in report["messages"] if message["severity"] >= WARNING] == []
