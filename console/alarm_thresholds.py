"""The thresholds of alarms: their defaults, and the bounds within which the person's settings may change them."""

from __future__ import annotations

import os
from typing import Annotated, Literal

from msgspec import Meta, Struct

AlarmName = Literal["stall", "nan", "spike", "busbw", "behind", "restart", "failed", "gpu", "kept"]
Seconds = Annotated[float, Meta(ge=1, lt=1e9)]


class Thresholds(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The limits (seconds, steps, GB/s) above which each alarm is raised; section [alarms] of the settings."""

    silent: Annotated[Seconds, Meta(description="seconds without a line of any pod")] = 600.0
    late: Annotated[
        Seconds, Meta(description="seconds without a step after which it is late: three steps at least")
    ] = 20.0
    late_steps: Annotated[Seconds, Meta(description="or so many usual steps, where that is sooner")] = 10.0
    stall: Annotated[Seconds, Meta(description="seconds without a step after which that is an alarm")] = 60.0
    stall_steps: Annotated[Seconds, Meta(description="and so many usual steps, or half again the longest pause")] = 25.0
    warm_up: Annotated[Seconds, Meta(description="seconds of silence before the pace is known")] = 1800.0
    pause: Annotated[Seconds, Meta(description="seconds without a step while it evaluates, loads or saves")] = 1800.0
    kept: Annotated[Seconds, Meta(description="seconds for which an ended job's kept pods hold idle GPUs")] = 600.0
    behind: Annotated[int, Meta(ge=1, description="steps that a rank is behind the foremost")] = 20
    gpus: Annotated[float, Meta(ge=0, lt=1e9, description="seconds between two looks at the GPUs; 0: none")] = 120.0
    busbw: Annotated[float, Meta(ge=0, lt=1e9, description="GB/s that an NCCL test has to reach; 0: usual")] = 0.0
    streams: Annotated[int, Meta(ge=0, description="logs followed at once for jobs whose page is not open")] = 32
    running: Annotated[bool, Meta(description="every running job is watched, not only opened ones")] = True
    off: Annotated[tuple[AlarmName, ...], Meta(description="alarms to turn off")] = ()
    inspect: Annotated[bool, Meta(description="a job of one's own that is late or slower is looked into")] = True
    notify: Annotated[bool, Meta(description="the terminal is told: bell, OSC 9 and 777")] = True

    @property
    def pass_line(self) -> float:
        """GB/s that an NCCL test has to reach: `busbw`, else A4_NCCL_PASS, else the health scanner's limit."""
        from trainlog import PASS_LINE

        return self.busbw or positive_variable("A4_NCCL_PASS") or PASS_LINE


def positive_variable(name: str) -> float | None:
    """The number above 0 in an environment variable; None if it holds none."""
    try:
        number = float(os.environ.get(name, ""))
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None
