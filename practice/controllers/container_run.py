"""A running container: its program step by step, log, state and restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.clock import stamp
from practice.node.logs import Log
from practice.programs.script import Exit, Meet, Say, Wait

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from practice.clock import Clock, Timer
    from practice.controllers.objects import Object
    from practice.programs.script import Place, Program, Step

_STEPS_AT_ONCE = 2000


class ContainerRun:
    """Runs one container; ``ended`` is called when its program ends."""

    def __init__(self, spec: Object, clock: Clock, ended: Callable[[ContainerRun], None]) -> None:
        self.spec = spec
        self.name: str = spec["name"]
        self.log: Log | None = None
        self.previous: Log | None = None
        self.restarts = 0
        self.state: Object = {"waiting": {"reason": "ContainerCreating"}}
        self.last_state: Object = {}
        self.place: Place | None = None
        self.guests: set[Callable[[], None]] = set()
        """End commands that were started in it from outside; called when it ends, for they end with it."""
        self._clock = clock
        self._ended = ended
        self._steps: Iterator[Step] | None = None
        self._timer: Timer | None = None
        self._number = 0

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

    def start(self, program: Program, place: Place) -> None:
        self._number += 1
        if self.log is not None:
            self.previous = self.log
        self.log = Log()
        self.place = place
        self.state = {"running": {"startedAt": stamp(self._clock.now())}}
        self._steps = program(place)
        self._clock.soon(self._going_on(self._number))

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
                "finishedAt": stamp(self._clock.now()),
                "containerID": self.identity,
            }
        }
        if self.log is not None:
            self.log.end()
        for end in tuple(self.guests):
            end()
        self._ended(self)

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

    def _going_on(self, number: int) -> Callable[[], None]:
        """Return a call that continues the program, unless another run has begun since."""

        def go_on() -> None:
            if number == self._number and self._steps is not None:
                self._advance(number)

        return go_on

    def _advance(self, number: int) -> None:
        for _ in range(_STEPS_AT_ONCE):
            steps = self._steps
            if steps is None or self.log is None or self.place is None:
                return
            step = next(steps, Exit(0))
            if isinstance(step, Say):
                self.log.add(self._clock.now(), step.text)
            elif isinstance(step, Exit):
                self.end(step.code, step.reason)
                return
            elif isinstance(step, Wait):
                self._timer = self._clock.after(step.seconds, self._going_on(number))
                return
            elif isinstance(step, Meet):
                self.place.room.when(step.fact, self._going_on(number))
                return
        self._clock.soon(self._going_on(number))
