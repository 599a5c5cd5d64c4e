"""What can be done about a job that hangs: each is shown first as what it will do, and asked for once more."""

from __future__ import annotations

import time
from pathlib import Path

from console.folders import state_folder
from console.hang.bundle import write_bundle
from console.hang.report import HangReport
from console.kube.objects.jobset import JobSet
from screens.base import LiveScreen
from screens.cli.hang import as_json, report_lines
from screens.dialogs.launch import launch_like_job
from screens.dialogs.pod_actions import stop_jobs
from screens.dialogs.question import Choice, Confirm, Pick

WITHOUT, AGAIN, CORDON, BUNDLE, STOP, WAIT = (
    "launch without it", "launch again", "cordon", "write bundle", "stop", "wait",
)  # fmt: skip


def suspected_nodes(report: HangReport) -> tuple[str, ...]:
    """The nodes of the processes that the others wait for."""
    return tuple(dict.fromkeys(each.node for group in report.suspects for each in group.members if each.node))


async def act_on_hang(screen: LiveScreen, jobset: JobSet, report: HangReport) -> None:
    """Let the person choose what to do about the job. To be run in a worker."""
    name, nodes = jobset.name, suspected_nodes(report)
    where = ", ".join(nodes[:2]) + (f" and {len(nodes) - 2} more" if len(nodes) > 2 else "")
    choices = [
        *([Choice(WITHOUT, f"the form with {name}'s values, not on {where}")] if nodes else []),
        Choice(AGAIN, f"the form with {name}'s values; it goes on from its last checkpoint"),
        *([Choice(CORDON, f"no new pods on {where}")] if nodes else []),
        Choice(BUNDLE, "stacks, dumps and logs as .tar.gz, for a report of the host"),
        Choice(STOP, f"{name}; shows what goes and what is lost"),
        Choice(WAIT, "nothing is done"),
    ]
    match await screen.app.push_screen_wait(Pick(f"{name}: {report.short}", choices)):
        case "launch without it":
            await launch_like_job(screen, jobset, avoid=nodes)
        case "launch again":
            await launch_like_job(screen, jobset)
        case "cordon":
            await _cordon(screen, nodes)
        case "write bundle":
            await _write_bundle(screen, jobset, report)
        case "stop":
            await stop_jobs(screen, [jobset.key])


async def _cordon(screen: LiveScreen, nodes: tuple[str, ...]) -> None:
    lines = [*nodes, " ", "No new pods are scheduled there; running pods stay. a4 report NODE has the host replaced."]
    if not await screen.app.push_screen_wait(Confirm("Cordon?", lines, verb="Cordon", keep="Leave")):
        return
    for node in nodes:
        with screen.report_errors(f"Could not cordon {node}"):
            await screen.session.watch.cordon(node, on=True)
            screen.notify(f"{node} is cordoned.", timeout=3, markup=False)


async def _write_bundle(screen: LiveScreen, jobset: JobSet, report: HangReport) -> None:
    place: Path = state_folder() / "hangs" / f"{jobset.name}-{time.strftime('%Y%m%d-%H%M%S')}.tar.gz"
    lines = [f"{place}", "Secrets are redacted. Nothing of the job changes."]
    if not await screen.app.push_screen_wait(Confirm("Write the bundle?", lines, verb="Write", keep="Cancel")):
        return
    texts = {"report.txt": "\n".join(report_lines(report, stacks=True)), "report.json": as_json(report)}
    with screen.report_errors("The bundle is not written"):
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = await write_bundle(screen.session.watch, jobset.namespace, report, texts, place)
        screen.notify(f"{place}, {size:,} bytes.", title="Bundle written", markup=False)
