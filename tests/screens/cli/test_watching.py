"""`a4 hang`, `a4 gpus` and `a4 wait` on the practice cluster: what they print and what they end with."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from console.practice.child import PracticeProcess
from screens.__main__ import main

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[str]:
    practice = PracticeProcess.start(speed=20.0, seed=0)
    try:
        yield str(practice.kubeconfig())
    finally:
        practice.stop()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def run(capsys: pytest.CaptureFixture[str], kubeconfig: str, *words: str) -> tuple[int, str, str]:
    code = main([*words, "--kubeconfig", kubeconfig])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_hang_names_the_rank(capsys: pytest.CaptureFixture[str], kubeconfig: str) -> None:
    code, out, _ = run(capsys, kubeconfig, "hang", "rag-eval", "-n", "team-b", "--json")
    told = json.loads(out)
    assert code == 1
    assert [(group["in"], group["ranks"]) for group in told["groups"] if group["suspect"]] == [("data loader", [1])]
    assert told["processes"][1]["where"]["doing"] == "data"
    code, out, _ = run(capsys, kubeconfig, "hang", "llama-70b")
    assert code == 0
    assert out.startswith("64 in backward\n")


def test_gpus_worst_first(capsys: pytest.CaptureFixture[str], kubeconfig: str) -> None:
    code, out, _ = run(capsys, kubeconfig, "gpus", "rag-eval", "-n", "team-b")
    assert code == 0
    assert out.splitlines()[2].split()[:3] == ["0", "1", "0"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("llama-70b", "--until", "step=10", "--until", "loss<0"), 0, "step=10 reached"),
        (("ddp-smoke-3",), 0, "ddp-smoke-3: done."),
        (("sft-a3b",), 1, "sft-a3b failed before done was reached"),
        (("dpo-a3b", "--without", "gpu,behind"), 5, "nan alarm: no loss printed at 118"),
        (("llama-70b", "--until", "loss<0", "--timeout", "1", "--ignore-alarms"), 6, "not reached within 1 s"),
        (("ddp-ablation", "--until", "busbw>9"), 7, "is done, and busbw>9 was not reached"),
        (("llama-70b", "--until", "nix"), 2, "cannot be waited for"),
        (("llama-70b", "--stall", "0"), 2, "stall has to be a number of at least 1"),
    ],
)
def test_wait(
    capsys: pytest.CaptureFixture[str], kubeconfig: str, words: tuple[str, ...], code: int, said: str
) -> None:
    ended, out, errors = run(capsys, kubeconfig, "wait", *words)
    assert said in out + errors
    assert ended == code
