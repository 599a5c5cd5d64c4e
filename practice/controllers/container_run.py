"""A running container: its program step by step, log, state and restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from practice.clock import Clock, Timer, format_timestamp
from practice.controllers.objects import Object
from practice.node.container_logs import PodLog
from practice.programs.steps import ExitStep, PauseStep, PrintLine, Program, ProgramContext, Step, WaitForFact

_MAX_STEPS_AT_ONCE = 2000


class ContainerRun:
    """The running of one container; ``ended`` is called when its program ends."""

    def __init__(self, spec: Object, clock: Clock, on_end: Callable[[ContainerRun], None]) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.log: PodLog | None = None
        self.previous: PodLog | None = None
        self.restarts = 0
        self.state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self.last_state: Object = {}
        self.place: ProgramContext | None = None
        self.guests: set[Callable[[], None]] = set()
        """Callbacks, called when the container ends, that end commands started in it by exec."""
        self._clock = clock
        self._on_end = on_end
        self._steps: Iterator[Step] | None = None
        self._timer: Timer | None = None
        self._run_number = 0

    @property
    def running(self) -> bool:
        return "running" in self.state

    @property
    def exit_code(self) -> int | None:
        """The exit code, None while it runs."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])

    def wait(self, reason: str, message: str = "") -> None:
        self.state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}

    def start(self, program: Program, context: ProgramContext) -> None:
        self._run_number += 1
        if self.log is not None:
            self.previous = self.log
        self.log = PodLog()
        self.place = context
        self.state = {"running": {"startedAt": format_timestamp(self._clock.now())}}
        self._steps = program(context)
        self._clock.call_soon(self._resume_callback(self._run_number))

    def end(self, code: int, reason: str = "") -> None:
        """End the program, by itself or by a signal."""
        if not self.running:
            return
        self._steps = None
        if self._timer is not None:
            self._timer.cancel()
        started = self.state["running"]["startedAt"]
        self.state = {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Error" if code else "Completed"),
                "startedAt": started,
                "finishedAt": format_timestamp(self._clock.now()),
                "containerID": self.identity,
            }
        }
        if self.log is not None:
            self.log.end()
        for end in tuple(self.guests):
            end()
        self._on_end(self)

    def restart(self) -> None:
        """Count a restart; the old state becomes lastState."""
        self.last_state = self.state
        self.restarts += 1

    @property
    def identity(self) -> str:
        """The container's id, which stays the same for one run."""
        uid = self.place.pod["metadata"]["uid"].replace("-", "") if self.place is not None else ""
        return f"containerd://{uid}{self.restarts:032x}"

    def status(self) -> Object:
        """Return the container status as the API has it."""
        image = self.spec.get("image", "")
        status: Object = {
            "name": self.name,
            "image": image,
            "imageID": "",
            "ready": self.running,
            "restartCount": self.restarts,
            "started": self.running,
            "state": dict(self.state),
            "lastState": dict(self.last_state),
        }
        if self.place is not None and "waiting" not in self.state:
            status["containerID"] = self.identity
            status["imageID"] = image.partition(":")[0] + "@sha256:" + "0" * 64
        return status

    def _resume_callback(self, number: int) -> Callable[[], None]:
        """Return a call that resumes the program, unless the container has been restarted since."""

        def go_on() -> None:
            if number == self._run_number and self._steps is not None:
                self._run_steps(number)

        return go_on

    def _run_steps(self, number: int) -> None:
        for _ in range(_MAX_STEPS_AT_ONCE):
            steps = self._steps
            if steps is None or self.log is None or self.place is None:
                return
            step = next(steps, ExitStep(0))
            if isinstance(step, PrintLine):
                self.log.add(self._clock.now(), step.text)
            elif isinstance(step, ExitStep):
                self.end(step.code, step.reason)
                return
            elif isinstance(step, PauseStep):
                self._timer = self._clock.call_later(step.seconds, self._resume_callback(number))
                return
            elif isinstance(step, WaitForFact):
                self.place.room.call_when(step.fact, self._resume_callback(number))
                return
        self._clock.call_soon(self._resume_callback(number))
