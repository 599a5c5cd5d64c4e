"""The command `a4 alarms`: what is wrong with the jobs that run."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from console.models.command_words import in_namespace
from console.models.finding import require_jobs
from screens.cli.alarm_words import LOOK_EVERY, told_of
from screens.cli.connect import connected
from screens.cli.output import say, say_json, say_table, warn
from screens.cli.ranks import KINDS
from screens.cli.wait import ALARM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from console.models.alarm import Alarm
    from console.session import Session
    from screens.cli.options import Options


async def alarms(options: Options) -> int:
    """Listen for a while and print the alarms that there are, or each as it begins; 5 if there is one."""
    async with connected(options, (*KINDS, "nodes")) as session:
        require_jobs(await session.listed(*KINDS), "Which jobs run")
        watching = session.alarms
        watching.patrol("" if options.all_namespaces else session.namespace, always=True)
        if options.follow:
            return await _follow(session, options)
        await asyncio.sleep(options.listen)
        found = [alarm for alarm in watching.latest if alarm.now]
        if options.json:
            coverage = watching.coverage
            told = [told_of(session, each) for each in found]
            say_json({"coverage": msgspec.to_builtins(coverage) | {"words": coverage.words}, "alarms": told})
        else:
            _show(found)
            warn(watching.coverage.words)
    return ALARM if found else 0


def _show(found: Sequence[Alarm]) -> None:
    now = time.time()
    rows = [
        [alarm.job, alarm.kind, f"{max(0, now - alarm.since):.0f}", alarm.words, alarm.namespace] for alarm in found
    ]
    if rows:
        say_table(("JOB", "ALARM", "S", "WHAT", "NAMESPACE"), rows, (False, False, True, False, False))
    else:
        say("No alarms.")


async def _follow(session: Session, options: Options) -> int:
    """Each alarm as it begins, and what is watched whenever that changes, until Ctrl-C."""
    watching, words = session.alarms, ""
    while True:
        for alarm in watching.news():
            if options.json:
                say(msgspec.json.encode(told_of(session, alarm)).decode())
            else:
                full = in_namespace(alarm.full, session.unusual(alarm.namespace))
                say(f"{time.strftime('%H:%M:%S', time.localtime(alarm.since))} {alarm.job}: {alarm.kind}: {full}")
        if not options.json and (said := watching.coverage.words) != words:
            words = said
            warn(words)
        await asyncio.sleep(LOOK_EVERY)
