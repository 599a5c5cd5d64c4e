"""Slow ranks of DDP, FSDP2, torch.compile, CUDA graphs, Megatron-Core and the Trainer, recorded on one H200."""

from pathlib import Path
from typing import Any

import pytest

from tests.bench.ranks.slow_verdicts import CAUSES, judge, rate, rate_cost, read_trials

TRIALS = list(read_trials(Path(__file__).parents[2] / "fixtures" / "h200" / "frameworks.jsonl.gz"))


@pytest.mark.parametrize("trial", TRIALS, ids=[f"{each['framework']} {each['kind']}" for each in TRIALS])
def test_rank_and_cause_are_reported_and_healthy_runs_are_clean(trial: dict[str, Any]) -> None:
    report, cost = judge(trial), trial.get("cost", 0.0)
    silent = "hidden" if trial["kind"] in CAUSES else "silent"
    assert rate(trial, report) == ("right" if cost >= 0.05 else silent)
    assert not report.suspects
    assert report.has_verdict
    if cost >= 0.05:
        (late,) = report.slow
        assert late.low <= late.share <= late.high
        assert rate_cost(late, cost) in (("about", "off", "holds") if trial["kind"] == "gpu" else ("about", "holds"))
        assert late.cost_at_most is not None
        assert cost <= late.cost_at_most
        assert late.staged is (trial["framework"] == "megatron")
        assert ("the pipeline may hide a part" in report.words[0]) is late.staged
    else:
        assert report.words[0].startswith(f"No rank costs more than {report.bound * 100:.2g} % of each step")
