"""What can be done with the chosen rank of a job, whatever tab is in front: an action is a function and a line here."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from console.models.pod import AFTER_THE_END
from screens.widgets.job_head import rank_waits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine

    Act = Callable[["LiveScreen", "JobLine", "Rank"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class RankAction:
    """One action. Its function runs in a worker, so it may ask (`push_screen_wait`) and may take its time."""

    name: str
    key: str
    title: str
    """As the key line and the palette call it."""
    tooltip: str
    place: str
    """ "module:function", imported when the key is pressed; the function takes the page, the job and the rank."""
    changes: bool = False
    """Whether it changes the cluster: gone in read-only mode."""
    running: bool = True
    """Whether the rank's pod has to run; else it is told why it does not, and the function is not called."""
    alive: bool = False
    """Whether the pod has to be there, or still to come, and not to have ended."""
    show: bool = True
    """Whether the key line tells it (the palette and the help always do)."""

    @property
    def action(self) -> str:
        """As a binding names it."""
        return f"on_rank('{self.name}')"

    def refusal(self, rank: Rank) -> str:
        """Why it cannot be done with that rank now; empty if it can."""
        if not (self.running or self.alive):
            return ""
        if rank.pod is not None and rank.pod.ended_words():
            code = f" ({rank.exit_code})" if rank.exit_code else ""
            return f"Pod {rank.number} has ended: {rank.status}{code}. {AFTER_THE_END}"
        if not self.running or rank.phase == "Running":
            return ""
        return rank_waits(rank.number, rank.pod)

    async def perform(self, screen: LiveScreen, line: JobLine, rank: Rank) -> None:
        """Do it."""
        module, _, function = self.place.partition(":")
        act: Act = getattr(import_module(module), function)
        await act(screen, line, rank)


RANK_ACTIONS: tuple[RankAction, ...] = (
    RankAction("shell", "s", "Shell", "A shell in the chosen pod", "screens.shell:shell_in_rank", changes=True),
    RankAction(
        "facts",
        "i",
        "Facts",
        "What its container says: GPUs, disks, mounts, NCCL environment",
        "screens.facts:facts_of_rank",
    ),
    RankAction(
        "code",
        "v",
        "VS Code",
        "ssh to the chosen pod by name: VS Code, Cursor, Zed, Gateway; asks before it sets anything up",
        "screens.attaching:open_editor_in_rank",
        changes=True,
    ),
    RankAction(
        "forward",
        "f",
        "Forward",
        "Ports of this machine that lead to the chosen pod, and follow it when it is replaced",
        "screens.forwarding:forward_rank",
        running=False,
        alive=True,
    ),
    RankAction(
        "doctor",
        "D",
        "Doctor",
        "Each step from your token to an editor in the chosen pod, and what fixes it",
        "screens.attaching:diagnose_rank",
        running=False,
        show=False,
    ),
    RankAction(
        "everywhere",
        "exclamation_mark",
        "Run in pods",
        "A command in many pods at once, equal outputs together",
        "screens.everywhere:run_in_ranks",
        changes=True,
        running=False,
        show=False,
    ),
    RankAction(
        "nccl",
        "Q",
        "NCCL test",
        "A short NCCL test in the chosen pod, over its own GPUs; says what it costs before it runs",
        "screens.everywhere:nccl_in_pod",
        changes=True,
        show=False,
    ),
    RankAction(
        "fetch",
        "u",
        "Copy from",
        "Copy a file or folder of the chosen pod to this machine",
        "screens.copying:fetch_from_rank",
        show=False,
    ),
    RankAction(
        "send",
        "U",
        "Copy to",
        "Copy a file or folder of this machine to the chosen pod",
        "screens.copying:send_to_rank",
        changes=True,
        show=False,
    ),
)
"""In the order of the key line."""
