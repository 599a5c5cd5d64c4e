"""Does by itself what config.toml says about one's own jobs that hang: tells it, waits, does it unless cancelled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.config import Actions
from console.errors import ConsoleError, NotThere
from console.kube.arrivals import CLOCK
from console.launch.launcher import stop_and_relaunch
from console.launch.recipes import LaunchPlan
from screens.alarm_notices import announce
from screens.dialogs.launch import begin_with_saved
from screens.widgets.form.launch_words import free_name

if TYPE_CHECKING:
    from console.launch.launcher import PlannedAction
    from screens.app import ConsoleApp

Key = tuple[str, str]


def follow_hangs(app: ConsoleApp) -> None:
    """Announce, drop and do what is due; called once a second. Nothing by default, nor in read-only mode."""
    settings = app.loaded.config.actions if not app.settings.read_only else Actions()
    if not app.connected or not app.session.alarms_enabled:
        return
    if settings.on_hang == "nothing" and not app.automatic.pending:
        return
    now = CLOCK.now()

    def may_act(key: Key) -> bool:
        job = app.fleet.jobsets.get(key)
        return job is not None and not job.finished and app.session.proof_of(job).may_act(settings.on_hang)

    changes = app.automatic.update(now, settings, app.session.alarms.latest_alarms, may_act)
    for plan in changes.announced:
        words = f"{plan.words(now)}: {plan.alarm.text}. X, then w, on the job or its alarm cancels that."
        announce(app, plan.key, "automatic action", words)
    for plan in changes.dropped:
        announce(app, plan.key, "nothing is done", "Its hang is over, or the settings or its owner changed.")
    for plan in changes.due:
        app.run_worker(_perform(app, plan), group="automatic")


async def _perform(app: ConsoleApp, plan: PlannedAction) -> None:
    try:
        words = await (_stop(app, plan.key) if plan.action == "stop" else _relaunch(app, plan))
    except ConsoleError as error:
        announce(app, plan.key, "the automatic action failed", f"{error.message} {error.hint}".strip())
    else:
        announce(app, plan.key, "automatic action", words)


async def _stop(app: ConsoleApp, key: Key) -> str:
    launch = app.session.launch
    going = await launch.job_stopper.plan_stop(*key)
    report = await launch.stop(*key, going.goes)
    lost = f" Lost: {going.lost}." if going.lost else ""
    return f"Stopped, as on_hang in config.toml says. Deleting: {', '.join(report.deleted[:4]) or key[1]}.{lost}"


async def _relaunch(app: ConsoleApp, plan: PlannedAction) -> str:
    (namespace, name), launch = plan.key, app.session.launch
    jobset = app.fleet.jobsets.get(plan.key)
    run = launch.runs.find_launch(jobset) if jobset is not None else None
    if run is None or run.left_out:
        lacks = f"does not keep {', '.join(run.left_out)}" if run is not None else "has no launch of it"
        raise NotThere(f"{name} was not stopped: the run history of this account {lacks}.", f"a4 stop {name}")
    before = LaunchPlan(run.recipe, name, namespace, run.values)
    begin, words = await begin_with_saved(app.session, plan.key, before)
    new = free_name(name, app.fleet, namespace)
    lost = await stop_and_relaunch(launch, before, new, plan.nodes, begin)
    words = f"{words} Lost: {lost}." if lost else words
    return f"Stopped, and launched again as {new} without {', '.join(plan.nodes)}. {words}"
