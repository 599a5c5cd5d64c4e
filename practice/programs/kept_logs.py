"""The logs that launchers/logged.sh stores: the output of each pod, in the folder mounted for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from practice.node.pod_volumes import write_file
from practice.programs.steps import ExitStep, PauseStep, PrintLine, Program, ProgramContext, Step

_SECONDS = 300.0
_OF_TEST = re.compile(r" *#| *[0-9]+ +[0-9]+ +[a-z]")
_CONNECTIVITY = re.compile(
    r"^step \d+ connectivity: run$.*?^step \d+ connectivity: (?:done|failed).*?$", re.DOTALL | re.M
)


def keep_log(program: Program) -> Program:
    """A program that runs another and copies its lines to the log bucket every five minutes."""

    def kept(context: ProgramContext) -> Iterator[Step]:
        lines: list[str] = []
        stored = context.now()
        try:
            for step in program(context):
                if isinstance(step, PrintLine):
                    lines.append(step.text)
                elif isinstance(step, ExitStep) or context.now() - stored > _SECONDS or _outlasts_interval(step):
                    _store_lines(context, lines)
                    stored = context.now()
                yield step
        finally:
            _store_lines(context, lines)  # ended from outside, it keeps its log all the same

    return kept


def _outlasts_interval(step: Step) -> bool:
    return isinstance(step, PauseStep) and step.seconds > _SECONDS


def _store_lines(context: ProgramContext, lines: list[str]) -> None:
    folder = f"{context.env['A4_LOG_FOLDER']}/{context.env.get('JOB_IDENTIFIER', '')}"
    text = "".join(f"{line}\n" for line in lines)
    name = f"worker-{context.rank}" if context.rank else "coordinator"
    found = {f"pod-logs/{name}.log": text}
    if not context.rank:
        found["nccl-test-results.txt"] = "".join(f"{line}\n" for line in lines if _OF_TEST.match(line))
        found["connectivity-test.log"] = "".join(f"{each[0]}\n" for each in _CONNECTIVITY.finditer(text))
    for path, content in found.items():
        if content:
            write_file(context, f"{folder}/{path}", content.encode())
