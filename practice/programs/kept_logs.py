"""The logs that launchers/logged.sh keeps: what a pod prints, in the folder that is mounted for it."""

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
    """A program that also copies the lines of another one to the log bucket every five minutes."""

    def kept(place: ProgramContext) -> Iterator[Step]:
        lines: list[str] = []
        stored = place.now()
        try:
            for step in program(place):
                if isinstance(step, PrintLine):
                    lines.append(step.text)
                elif isinstance(step, ExitStep) or place.now() - stored > _SECONDS or _outlasts_interval(step):
                    _store_lines(place, lines)
                    stored = place.now()
                yield step
        finally:
            _store_lines(place, lines)  # ended from outside, it keeps its log all the same

    return kept


def _outlasts_interval(step: Step) -> bool:
    return isinstance(step, PauseStep) and step.seconds > _SECONDS


def _store_lines(place: ProgramContext, lines: list[str]) -> None:
    folder = f"{place.env['A4_LOG_FOLDER']}/{place.env.get('JOB_IDENTIFIER', '')}"
    text = "".join(f"{line}\n" for line in lines)
    name = f"worker-{place.rank}" if place.rank else "coordinator"
    found = {f"pod-logs/{name}.log": text}
    if not place.rank:
        found["nccl-test-results.txt"] = "".join(f"{line}\n" for line in lines if _OF_TEST.match(line))
        found["connectivity-test.log"] = "".join(f"{each[0]}\n" for each in _CONNECTIVITY.finditer(text))
    for path, content in found.items():
        if content:
            write_file(place, f"{folder}/{path}", content.encode())
