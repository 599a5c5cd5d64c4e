"""A whole log read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.metrics.log_results import LmEvalParser
from console.metrics.nccl.parser import NcclParser
from console.metrics.training.parser import TrainingParser

if TYPE_CHECKING:
    from console.metrics.log_results import EvalScore
    from console.metrics.nccl.results import NcclTest
    from console.metrics.training.reader import RunReader


def parse_nccl(data: bytes) -> tuple[NcclTest, ...]:
    parser = NcclParser()
    parser.feed(data)
    parser.close()
    return parser.tests


def parse_training(data: bytes) -> tuple[RunReader, ...]:
    parser = TrainingParser()
    parser.feed(data)
    parser.close()
    return parser.runs


def parse_lm_eval(data: bytes) -> tuple[EvalScore, ...]:
    parser = LmEvalParser()
    parser.feed(data)
    parser.close()
    return tuple(parser.scores)
