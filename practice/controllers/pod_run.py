"""Runs one pod on its node: starts, restarts and ends its containers, and writes its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from practice.clock import format_timestamp
from practice.controllers.container_run import ContainerRun
from practice.controllers.objects import key_of
from practice.programs.choose_program import choose_program
from practice.programs.environment import (
    MissingReferenceError,
    build_environment,
    expand_arguments,
    find_missing_volume,
)
from practice.programs.steps import ProgramContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from practice.controllers.objects import Object
    from practice.controllers.pod_host import PodHost

_SANDBOX_SECONDS = 0.9
_CACHED_PULL_SECONDS = 0.4
_REFUSED_SECONDS = 1.2
_MOUNT_RETRY_SECONDS = 2.0
_RETRY_SECONDS = 2.0
_BACKOFF_SECONDS = 10.0
_MAX_BACKOFF_SECONDS = 300.0
_STOP_SECONDS = 0.8
_TERMINATED, _KILLED = 143, 137


class PodRun:
    """The running of one pod: its containers, restarts and status."""

    def __init__(self, host: PodHost, pod: Object, on_gone: Callable[[PodRun], None]) -> None:
        """`on_gone`: called when all containers of a deleted pod have ended."""
        self.key = key_of(pod)
        self.pod = pod
        self.init = [
            ContainerRun(spec, host.clock, self._on_init_ended) for spec in self._container_specs("initContainers")
        ]
        self.main = [
            ContainerRun(spec, host.clock, self._on_main_ended) for spec in self._container_specs("containers")
        ]
        self.address = host.new_address()
        self.stopping = False
        self.forced_phase = ""
        self._host = host
        self._on_gone = on_gone
        self._clock = host.clock
        self._started = format_timestamp(self._clock.now())
        self._sandbox = False
        self._changed: dict[str, tuple[str, str]] = {}
        self._pauses: dict[str, float] = {}
        """By container the seconds until the next pull of an image that could not be pulled."""
        for run in self.main if self.init else ():
            run.wait("PodInitializing")
        for run in self.init:
            run.wait("PodInitializing")

    def begin(self) -> None:
        """Start the pod."""
        self.write_status()
        self._clock.call_later(_SANDBOX_SECONDS, self._mount_volumes)

    def container(self, name: str) -> ContainerRun | None:
        """Return one container, or the only main one when no name is given; None for an unknown name."""
        if not name:
            return self.main[0]
        return next((run for run in (*self.main, *self.init) if run.name == name), None)

    def stop(self, grace: float) -> None:
        """End all containers: by SIGTERM, and by SIGKILL after the grace period."""
        if self.stopping:
            return
        self.stopping = True
        alive = [run for run in (*self.init, *self.main) if run.running]
        for run in alive:
            self._record_event("Killing", f"Stopping container {run.name}", run)
        code, delay = (_TERMINATED, min(_STOP_SECONDS, grace)) if grace else (_KILLED, 0.0)

        def kill() -> None:
            for run in alive:
                run.end(code)
            self._on_gone(self)

        self._clock.call_later(delay, kill)

    def end_containers(self, phase: str, code: int, reason: str) -> None:
        """End all main containers from outside, for a test or a fault of the scene."""
        self.forced_phase = phase
        for run in self.main:
            run.end(code, reason)

    def write_status(self) -> None:
        self._host.write_status(self.key, self._fill_status)

    def _container_specs(self, kind: str) -> list[Object]:
        return [dict(spec) for spec in self.pod["spec"].get(kind) or ()]

    def _record_event(
        self, reason: str, message: str, run: ContainerRun | None = None, *, kind: str = "Normal"
    ) -> None:
        field = ""
        if run is not None:
            field = f"spec.{'initContainers' if run in self.init else 'containers'}{{{run.name}}}"
        self._host.record_event(self.pod, kind, reason, message, field)

    def _mount_volumes(self) -> None:
        if self.stopping:
            return
        storage = self._host.storage
        why = find_missing_volume(self.pod, storage) or self._host.buckets.mount_error(self.pod, storage)
        if why:
            self._record_event("FailedMount", why, kind="Warning")
            self._clock.call_later(_RETRY_SECONDS, self._mount_volumes)
            return
        self._sandbox = True
        for run in self.init[:1] or self.main:
            self._pull_image(run)
        self.write_status()

    def _pull_image(self, run: ContainerRun) -> None:
        image, policy = str(run.spec.get("image", "")), run.spec.get("imagePullPolicy")
        node = self.pod["spec"]["nodeName"]
        if policy != "Always" and self._host.has_image(node, image):
            self._record_event(
                "Pulled", f'Container image "{image}" already present on machine and can be accessed by the pod', run
            )
            self._clock.call_later(0.1, lambda: self._create_container(run))
            return
        self._record_event("Pulling", f'Pulling image "{image}"', run)
        if why := self._host.registries.pull_error(image):
            self._clock.call_later(_REFUSED_SECONDS, lambda: self._back_off_pull(run, image, why))
            return
        seconds = self._host.pull_seconds(node, image)

        def pulled() -> None:
            took = f"{seconds or _CACHED_PULL_SECONDS:.3f}s"
            size = 200_000_000 + len(image) * 7_654_321
            text = (
                f'Successfully pulled image "{image}" in {took} ({took} including waiting). Image size: {size} bytes.'
            )
            if not self.stopping:
                self._record_event("Pulled", text, run)
                self._create_container(run)

        self._clock.call_later(seconds or _CACHED_PULL_SECONDS, pulled)

    def _back_off_pull(self, run: ContainerRun, image: str, why: str) -> None:
        """Record a failed image pull, and retry with growing delays."""
        if self.stopping:
            return
        pause = self._pauses[run.name] = min(2 * self._pauses.get(run.name, _BACKOFF_SECONDS / 2), _MAX_BACKOFF_SECONDS)
        self._record_event("Failed", f'Failed to pull image "{image}": {why}', run, kind="Warning")
        self._record_event("Failed", "Error: ErrImagePull", run, kind="Warning")
        run.wait("ErrImagePull", why)
        self.write_status()

        def back_off() -> None:
            if self.stopping:
                return
            text = f'Back-off pulling image "{image}"'
            self._record_event("BackOff", text, run)
            self._record_event("Failed", "Error: ImagePullBackOff", run, kind="Warning")
            run.wait("ImagePullBackOff", f"{text}: ErrImagePull: {why}")
            self.write_status()
            self._clock.call_later(
                pause - _MOUNT_RETRY_SECONDS, lambda: None if self.stopping else self._pull_image(run)
            )

        self._clock.call_later(_MOUNT_RETRY_SECONDS, back_off)

    def _create_container(self, run: ContainerRun) -> None:
        if self.stopping:
            return
        pod = self._host.stored_pod(self.pod)
        try:
            env = build_environment(pod, run.spec, self._host.storage)
        except MissingReferenceError as error:
            run.wait("CreateContainerConfigError", str(error))
            self._record_event("Failed", f"Error: {error}", run, kind="Warning")
            self.write_status()
            self._clock.call_later(_RETRY_SECONDS, lambda: self._create_container(run))
            return
        argv = expand_arguments(run.spec, env)
        notes = self.pod["metadata"].get("annotations") or {}
        place = ProgramContext(
            argv,
            env,
            pod,
            self._host.facts_of_attempt(self.pod),
            self._host.random_of(self.pod, run.restarts),
            self._clock.now,
            run.restarts,
            notes,
            self._host.buckets.volumes,
        )
        self._record_event("Created", "Container created", run)
        self._record_event("Started", "Container started", run)
        run.start(choose_program(argv, env, is_init=run in self.init), place)
        self.write_status()

    def _on_init_ended(self, run: ContainerRun) -> None:
        if self.stopping:
            return
        at = self.init.index(run)
        if run.exit_code == 0:
            if at + 1 < len(self.init):
                self._pull_image(self.init[at + 1])
            else:
                for main in self.main:
                    main.wait("PodInitializing")
                    self._pull_image(main)
        elif self.pod["spec"].get("restartPolicy") != "Never":
            self._restart_later(run)
        self.write_status()

    def _on_main_ended(self, run: ContainerRun) -> None:
        if self.stopping:
            return
        if self._is_restarted(run):
            self._restart_later(run)
        self.write_status()

    def _restart_later(self, run: ContainerRun) -> None:
        """Restart a container, from the second time on with growing delays."""
        delay = min(_BACKOFF_SECONDS * 2 ** (run.restarts - 1), _MAX_BACKOFF_SECONDS) if run.restarts else 0.0
        run.restart()
        if not delay:
            self._pull_image(run)
            return
        where = f"{self.key[1]}_{self.key[0]}({self.pod['metadata']['uid']})"
        text = f"back-off {delay:.0f}s restarting failed container={run.name} pod={where}"
        run.wait("CrashLoopBackOff", text)
        self._record_event(
            "BackOff", f"Back-off restarting failed container {run.name} in pod {where}", run, kind="Warning"
        )
        self._clock.call_later(delay, lambda: self._pull_image(run))

    def _fill_status(self, status: Object) -> None:
        """Fill in the status of the pod, a draft."""
        node = self._host.node_of(self.pod)
        addresses = {item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()}
        status["phase"] = self.phase()
        status["startTime"] = self._started
        host = addresses.get("InternalIP", "10.128.0.2")
        status["hostIP"], status["hostIPs"] = host, [{"ip": host}]
        if self._sandbox:
            address = host if self.pod["spec"].get("hostNetwork") else self.address
            status["podIP"], status["podIPs"] = address, [{"ip": address}]
        if self.init:
            status["initContainerStatuses"] = [_init_container_status(run) for run in self.init]
        status["containerStatuses"] = [run.status() for run in self.main]
        kept = [item for item in status.get("conditions") or () if item.get("type") not in self._condition_states()]
        status["conditions"] = [self._make_condition(*item) for item in self._condition_states().items()] + kept

    def phase(self) -> str:
        codes = [None if self._is_restarted(run) else run.exit_code for run in self.main]
        if any(code for code in [run.exit_code for run in self.init]) and self._never_restarts():
            return "Failed"
        if all(code is not None for code in codes):
            return self.forced_phase or ("Failed" if any(codes) else "Succeeded")
        begun = any(run.running or run.exit_code is not None or run.restarts for run in self.main)
        return "Running" if begun else "Pending"

    def _is_restarted(self, run: ContainerRun) -> bool:
        """Whether an ended main container is to be restarted."""
        policy = self.pod["spec"].get("restartPolicy")
        if self.forced_phase or self.stopping:
            return False
        return bool(policy == "Always" or (policy == "OnFailure" and run.exit_code))

    def _never_restarts(self) -> bool:
        return bool(self.pod["spec"].get("restartPolicy") == "Never")

    def _condition_states(self) -> dict[str, tuple[str, str]]:
        """Return by type the (status, reason) of each condition that the kubelet keeps."""
        waiting = [run.name for run in self.init if run.exit_code != 0]
        ready = all(run.running for run in self.main)
        phase = self.phase()
        over = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
        initialized = ("True", "PodCompleted" if phase == "Succeeded" else "")
        return {
            "PodReadyToStartContainers": ("True" if self._sandbox and not self._is_terminal(phase) else "False", ""),
            "Initialized": ("False", "ContainersNotInitialized") if waiting else initialized,
            "Ready": ("True", "") if ready else ("False", over),
            "ContainersReady": ("True", "") if ready else ("False", over),
        }

    def _is_terminal(self, phase: str) -> bool:
        return phase in ("Succeeded", "Failed")

    def _make_condition(self, kind: str, value: tuple[str, str]) -> Object:
        status, reason = value
        known = self._changed.get(kind)
        if known is None or known[0] != status:
            self._changed[kind] = known = (status, format_timestamp(self._clock.now()))
        found: Object = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": known[1]}
        if reason:
            found["reason"] = reason
        if reason == "ContainersNotReady":
            unready = " ".join(run.name for run in self.main if not run.running)
            found["message"] = f"containers with unready status: [{unready}]"
        elif reason == "ContainersNotInitialized":
            names = " ".join(run.name for run in self.init if run.exit_code != 0)
            found["message"] = f"containers with incomplete status: [{names}]"
        return found


def _init_container_status(run: ContainerRun) -> Object:
    return {**run.status(), "ready": run.exit_code == 0, "started": run.running}
