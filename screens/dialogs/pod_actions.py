"""The actions on pods, ranks and jobs that all pages share."""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

from textual import work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType

from console.errors import ConsoleError, Unreachable
from console.kube.objects.pod import HINT_AFTER_THE_END, Pod
from console.scheduling.pod_slots import PodFate, PodSlot, find_successor, pod_fate, pod_slots
from screens.columns.job_header import why_no_rank_log
from screens.columns.jobs import JobLine
from screens.dialogs.editor_and_tunnel import forward_pod
from screens.dialogs.question import Confirm, Pick, PickEntry
from screens.dialogs.save_and_copy import copy_files
from screens.live_screen import LiveScreen
from screens.wording import count

AFTER_THE_END_BY_KEY = f"{HINT_AFTER_THE_END} Here the keys are l and u."


Key = tuple[str, ...]


class PodActions(LiveScreen):
    CHANGES_CLUSTER = frozenset({"delete_pods", "copy_to"})
    SUBJECT = LiveScreen.SUBJECT | {"job", "pod", "node"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l", "log", "Log", id="pods.log", tooltip="Follow what its container prints"),
        Binding("s", "shell", "Shell", id="pods.shell", tooltip="A terminal in the pod; exit comes back"),
        Binding("f", "forward", "Forward", id="pods.forward", tooltip="Forward ports of this machine to it"),
        Binding("u", "copy_from", "Copy from", show=False, id="pods.copy-from", tooltip="Its files to here"),
        Binding("U", "copy_to", "Copy to", show=False, id="pods.copy-to", tooltip="Files from here into it"),
        Binding(
            "v",
            "editor",
            "VS Code",
            show=False,
            id="pods.editor",
            tooltip="ssh to it by name: VS Code, Cursor, Zed, Gateway; asks before it sets anything up",
        ),
        Binding("y", "yaml", "YAML", id="pods.yaml", tooltip="The object as the API server has it"),
        Binding("x", "delete_pods", "Delete", id="pods.delete", tooltip="Delete it, or the marked ones; asks first"),
        Binding("c", "copy", "Copy name", show=False, id="pods.copy", tooltip="To the clipboard (OSC 52)"),
    ]

    @property
    @abstractmethod
    def pod_keys(self) -> list[Key]:
        """The keys (namespace, name) of the pods that an action would apply to."""

    @property
    def container(self) -> str:
        """The container that an action would apply to; empty: the action itself chooses one of the pod's containers."""
        return ""

    def pods(self) -> list[Pod]:
        pods = self.app.fleet.pods
        return [pods[key[0], key[1]] for key in self.pod_keys if (key[0], key[1]) in pods]

    def subject(self) -> dict[str, str]:
        pod = next(iter(self.pods()), None)
        if pod is None:
            return {**super().subject(), "job": "", "pod": "", "node": ""}
        own = {"namespace": pod.namespace, "job": pod.jobset, "pod": pod.name, "node": pod.node}
        return {**super().subject(), **own}

    def action_log(self) -> None:
        for pod in self.pods()[:1]:
            self.app.open_page("log", pod.namespace, pod.name, self.container)

    def action_yaml(self) -> None:
        for pod in self.pods()[:1]:
            self.app.open_page("object_yaml", "Pod", pod.namespace, pod.name)

    def action_copy(self) -> None:
        if pods := self.pods():
            self.copy([pod.name for pod in pods], "names")

    @work(group="actions")
    async def action_shell(self) -> None:
        for pod in self.living_pods()[:1]:
            await open_shell(self, pod.namespace, pod.name, self.container)

    @work(group="actions")
    async def action_forward(self) -> None:
        for pod in self.living_pods()[:1]:
            await forward_pod(self, pod)

    def action_copy_from(self) -> None:
        self._copy_files(is_fetch=True)

    def action_copy_to(self) -> None:
        self._copy_files(is_fetch=False)

    @work(group="actions")
    async def _copy_files(self, *, is_fetch: bool) -> None:
        for pod in self.running_pods()[:1]:
            await copy_files(self, pod.namespace, pod.name, f"pod {pod.name}", self.container, is_fetch=is_fetch)

    def living_pods(self) -> list[Pod]:
        """The pods that an action applies to; empty, with a notification, if the container has ended."""
        pods = self.pods()
        if pods and (ended := pods[0].ended_text(self.container)):
            self.notify(f"{ended}. {AFTER_THE_END_BY_KEY}", severity="warning", timeout=8, markup=False)
            return []
        return pods

    def running_pods(self) -> list[Pod]:
        """The pods that an action applies to if they run; else empty, with a notification."""
        pods = self.living_pods()
        if pods and pods[0].phase != "Running":
            self.notify(f"{pods[0].name} does not run ({pods[0].status}).", severity="warning", markup=False)
            return []
        return pods

    @work(group="actions")
    async def action_editor(self) -> None:
        """Open an editor in the pod, which must be a rank of a job, since ssh host names are by job and rank."""
        from screens.dialogs.editor_and_tunnel import open_editor_in_rank

        pods, fleet = self.pods(), self.app.fleet
        if not pods:
            return
        pod = pods[0]
        jobset = fleet.jobsets.get((pod.namespace, pod.jobset))
        found = [slot for slot in (pod_slots(jobset, fleet) if jobset else ()) if slot.pod and slot.pod.uid == pod.uid]
        if jobset is None or not found or pod.phase != "Running":
            words = f"{pod.name} is not a running pod of a job, which ssh by name needs."
            self.notify(words, severity="warning", markup=False)
            return
        with self.report_errors(f"No editor in {pod.name}"):
            await open_editor_in_rank(self, JobLine(jobset, fleet), found[0])

    @work(group="actions")
    async def action_delete_pods(self) -> None:
        pods = self.pods()
        if not pods:
            return
        question = f"Delete pod {pods[0].name}?" if len(pods) == 1 else f"Delete {len(pods)} pods?"
        if not await self.app.push_screen_wait(Confirm(question, [*map(pod_summary, pods), *consequences(pods)])):
            return
        for pod in pods:
            with self.report_errors(f"Could not delete {pod.name}"):
                await self.session.watch.delete_pod(pod.namespace, pod.name)
                self.notify(f"Deleting {pod.name}.", timeout=3, markup=False)


def pod_summary(pod: Pod) -> str:
    on = f" on {pod.node}" if pod.node else ""
    return f"{pod.namespace}/{pod.name}: {pod.status}{on}" + (f", {count(pod.gpus, 'GPU')}" if pod.gpus else "")


def consequences(pods: list[Pod]) -> list[str]:
    jobs = sorted({pod.jobset for pod in pods if pod.jobset and not pod.finished})
    if jobs:
        return [" ", f"{', '.join(jobs)} counts this as a failure and may restart all its pods."]
    owned = sorted({f"{pod.owner_kind} {pod.owner_name}" for pod in pods if pod.owner_name and not pod.finished})
    return [" ", f"{', '.join(owned)} creates a new one."] if owned else [" ", "No controller creates a new one."]


@dataclass(frozen=True, slots=True)
class RankAction:
    """An action on a rank; its function runs in a worker and may ask questions."""

    name: str
    key: str
    title: str  # as the key line and the palette call it
    tooltip: str
    function_path: str
    """ "module:function", imported when the key is pressed; the function takes the page, the job and the rank."""
    changes: bool = False  # whether it changes the cluster: gone in read-only mode
    needs_running_pod: bool = True
    """Whether the rank's pod has to run: if it does not, the reason is shown and the function is not called."""
    needs_live_pod: bool = False  # whether the pod has to be there, or still to come, and not to have ended
    show: bool = True  # whether the key line tells it (the palette and the help always do)

    @property
    def action(self) -> str:
        return f"on_rank('{self.name}')"

    def refusal(self, slot: PodSlot) -> str:
        """The reason why the action is not possible for that rank now; empty if it is."""
        if not (self.needs_running_pod or self.needs_live_pod):
            return ""
        if slot.pod is not None and slot.pod.ended_text():
            code = f" ({slot.exit_code})" if slot.exit_code else ""
            return f"Pod {slot.number} has ended: {slot.status}{code}. {AFTER_THE_END_BY_KEY}"
        if not self.needs_running_pod or slot.phase == "Running":
            return ""
        return why_no_rank_log(slot.number, slot.pod)

    async def perform(self, screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
        module, _, function = self.function_path.partition(":")
        await getattr(import_module(module), function)(screen, line, slot)


RANK_ACTIONS: tuple[RankAction, ...] = (
    RankAction("shell", "s", "Shell", "A shell in the chosen pod", "screens.dialogs.pod_actions:shell_in_rank",
               changes=True),
    RankAction("code", "v", "VS Code",
               "ssh to the chosen pod by name: VS Code, Cursor, Zed, Gateway; asks before it sets anything up",
               "screens.dialogs.editor_and_tunnel:open_editor_in_rank", changes=True),
    RankAction("forward", "f", "Forward",
               "Forward ports of this machine to the chosen pod; they follow it when it is replaced",
               "screens.dialogs.editor_and_tunnel:forward_rank", needs_running_pod=False, needs_live_pod=True),
    RankAction("doctor", "D", "Doctor", "Each step from your token to an editor in the chosen pod, and what fixes it",
               "screens.dialogs.editor_and_tunnel:diagnose_rank", needs_running_pod=False, show=False),
    RankAction("everywhere", "exclamation_mark", "Run in pods",
               "A command in many pods at once, equal outputs together",
               "screens.dialogs.run_in_ranks:run_in_ranks", changes=True, needs_running_pod=False, show=False),
    RankAction("nccl", "Q", "NCCL test",
               "A short NCCL test in the chosen pod, over its own GPUs; says what it costs before it runs",
               "screens.dialogs.run_in_ranks:nccl_in_pod", changes=True, show=False),
    RankAction("fetch", "u", "Copy from", "Copy a file or folder of the chosen pod to this machine",
               "screens.dialogs.save_and_copy:fetch_from_rank", show=False),
    RankAction("send", "U", "Copy to", "Copy a file or folder of this machine to the chosen pod",
               "screens.dialogs.save_and_copy:send_to_rank", changes=True, show=False),
)  # fmt: skip
"""All actions on a rank, in the order of the key line."""


async def shell_in_rank(screen: LiveScreen, line: JobLine, slot: PodSlot) -> None:
    await open_shell(screen, line.jobset.namespace, slot.name, title=f"pod {slot.number} of {line.jobset.name}")


async def open_shell(screen: LiveScreen, namespace: str, pod: str, container: str = "", *, title: str = "") -> None:
    """Run a shell in a pod on this terminal until it ends; asks for a container if several run. Errors are notified."""
    while True:
        found = screen.app.fleet.pods.get((namespace, pod))
        chosen = container or await _choose_container(screen, found)
        if chosen is None:
            return
        code, failure = await _lend_terminal(screen, namespace, pod, chosen, title)
        if failure is None and (code == 0 or found is None or pod_fate(screen.app.fleet, found) is PodFate.HERE):
            # A shell that was left with tmux's keys goes on, and ends for this side as one that is closed
            ended = "Back from the shell." if code == 0 else f"The shell ended with exit code {code}."
            screen.notify(ended, title=pod, severity="warning" if code else "information", timeout=4, markup=False)
            return
        if failure is not None:
            with screen.report_errors(f"No shell in {pod}"):
                raise failure
        if found is None or (failure is not None and not isinstance(failure, Unreachable)):
            return
        heir = await _wait_for_replacement(screen, found)
        if heir is None:
            return
        pod = heir.name


async def _choose_container(screen: LiveScreen, pod: Pod | None) -> str | None:
    """The only running container, else the one that the person chooses; None if cancelled."""
    main = pod.main.name if pod and pod.main else ""
    running = [each for each in pod.containers if each.state == "running"] if pod else []
    if len(running) < 2 or pod is None:
        return main
    notes = {each.name: "init container" for each in running if each.init} | {main: "does the work"}
    choices = [PickEntry(each.name, notes.get(each.name, ""), each.name == main) for each in running]
    return await screen.app.push_screen_wait(Pick(f"Shell in which container of {pod.name}?", choices))


async def _lend_terminal(
    screen: LiveScreen, namespace: str, pod: str, container: str, title: str
) -> tuple[int, ConsoleError | None]:
    """Run a shell on this terminal: (exit code, error)."""
    app = screen.app
    code = 1
    failure: ConsoleError | None = None
    try:
        session = screen.session
        # Drawing stops as well: what is drawn while suspended fills a queue that nobody empties.
        with app.batch_update(), app.suspend():
            back = "exit or ctrl-d comes back; in tmux, the keys at its foot too, and the shell keeps running"
            sys.stdout.write(f"a4: shell in {title or pod}; {back}\n")
            sys.stdout.flush()
            try:
                code = await session.watch.shell(namespace, pod, container=container, name=title)
            except ConsoleError as error:
                failure = error  # given back: an exception in here would leave the app suspended
    except SuspendNotSupported:
        failure = ConsoleError("A shell cannot be opened in this terminal.", f"Run: a4 shell pod/{pod}")
    except ConsoleError as error:
        failure = error
    app.screen.refresh(layout=True)
    return code, failure


async def _wait_for_replacement(screen: LiveScreen, pod: Pod) -> Pod | None:
    """The pod to continue a shell in: the same if it still runs, else its successor; None if declined or none comes."""
    over = f"{pod.name} has ended, and no pod replaces it."
    became = pod_fate(screen.app.fleet, pod)
    if became is PodFate.OVER:
        screen.notify(over, severity="warning", markup=False)
        return None
    here = became is PodFate.HERE
    words = f"{pod.name} is still there." if here else f"{pod.name} is being replaced."
    offer = "Open the shell again?" if here else "Open a shell in the pod that replaces it as soon as it runs?"
    if not await screen.app.push_screen_wait(Confirm(words, [offer], verb="Open", keep="Cancel")):
        return None
    async for fleet in screen.session.watch.snapshots():
        became = pod_fate(fleet, pod)
        if here and became is PodFate.HERE:
            return pod
        if became is PodFate.OVER:
            screen.notify(over, severity="warning", markup=False)
            return None
        if (heir := find_successor(fleet, pod)) is not None:
            return heir
    return None
