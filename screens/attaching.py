"""VS Code and its kin in a rank: set up SSH after asking, then open an editor, or hand over its link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from screens.modals.attached import Attached
from screens.modals.confirm import Confirm

if TYPE_CHECKING:
    from console.models.attach import Editor, SshHost, SshPlan
    from console.models.ranks import Rank
    from screens.base import LiveScreen
    from screens.widgets.job_line import JobLine

WAIT = 10.0
"""Seconds for which a pod that is being replaced is waited for while somebody looks."""


async def open_editor_in_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """Make the rank known to ssh, the person agreeing, and show what can be opened in it; runs in a worker."""
    attach, jobset = screen.session.attach, line.jobset
    plan = await attach.plan(jobset.namespace, jobset.name, rank.number, wait=WAIT)
    if plan.adds_key or plan.adds_line:
        question = Confirm(f"Set up SSH to {plan.job}?", consequences(plan), verb="Set up", keep="Leave")
        if not await screen.app.push_screen_wait(question):
            return
    host = await attach.set_up(plan, wait=WAIT)
    chosen = await screen.app.push_screen_wait(Attached(host, await attach.editors(host)))
    if chosen is not None:
        await open_in(screen, chosen, host)


async def open_in(screen: LiveScreen, editor: Editor, host: SshHost) -> None:
    """Start the editor; one that is not on this machine has its link copied, or its name where it has no link."""
    if editor.command:
        await screen.session.attach.start(editor)
        screen.notify(f"{editor.title} opens {host.host}.", timeout=4, markup=False)
        return
    screen.app.copy_to_clipboard(editor.link or host.host)
    what = "Its link" if editor.link else f"The host {host.host}"
    words = f"{what} is copied. {' '.join(editor.steps)}"
    screen.notify(words, title=f"{editor.title} is not on this machine", timeout=12, markup=False)


async def diagnose_rank(screen: LiveScreen, line: JobLine, rank: Rank) -> None:
    """Open the doctor's page."""
    screen.app.open_page("doctor", line.jobset.namespace, line.jobset.name, str(rank.number))


def consequences(plan: SshPlan) -> list[str]:
    """What the person agrees to."""
    lines = []
    if plan.makes_key:
        lines.append(f"There is no key that can be used without a question: {plan.key} is made.")
    if plan.adds_key:
        lines.append(f"Pod {plan.pod} does not know it and gets it, for {plan.user}:" if plan.makes_key else
                     f"Pod {plan.pod} does not know your key, {plan.key}, and gets it, for {plan.user}:")  # fmt: skip
        others = f", the other pods of {plan.job} when you connect to them" if plan.ranks > 1 else ""
        lines.append(f"one line in ~/.ssh/authorized_keys{others}.")
    if plan.adds_line:
        lines.append(f"{plan.config} begins with `{plan.line}`; `a4 ssh --undo` takes it away.")
    if plan.other:
        lines.append(f"{plan.other}-{plan.rank} is another job's, so this one is {plan.host}.")
    return lines
