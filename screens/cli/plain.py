"""`a4 --plain`: the console as lines for a screen reader or a pipe, one for each change of what matters."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from console.kube.snapshot import Fleet
from console.kube.stream_completeness import SERVER_CLOCK
from console.scheduling.topology import Pool, build_pools
from screens import wording
from screens.cli.arguments import Options
from screens.cli.job_arguments import alarm_line
from screens.cli.lists import read_progress_of_jobs, unread_kinds
from screens.cli.open_session import open_session
from screens.cli.output import print_line, warn
from screens.cli.wait_and_alarms import warn_of_settings
from screens.columns.jobs import JOBS, JobLine, progress_cell, reason_and_message, reason_cell, start_words
from screens.columns.live_jobs import freshness_spans, live_line
from screens.columns.nodes import POOLS, node_state, pool_state
from screens.columns.queues import QUEUES, QueueLine, queue_line, queue_state
from screens.wording import Cell

if TYPE_CHECKING:
    from console.session import Session

PLAIN_KINDS = tuple(dict.fromkeys(kind for each in (JOBS, QUEUES, POOLS) for kind in (each.main_kind, *each.uses)))
CHANGE_POLL_SECONDS = 1.0  # seconds between two looks for changes
PROGRESS_POLL_SECONDS = 2.0  # seconds between two looks for jobs whose log may be looked at again
MAX_LINES_PER_KIND = 20  # lines of one kind of thing at once: of a large cluster the others are counted
_COMMANDS = {"job": "a4 jobs -A", "queue": "a4 queues", "pool": "a4 pools", "node": "a4 nodes", "alarm": "a4 alarms -A"}
_GLYPHS = frozenset("●◐○✗⚠✓‖▲")
_AGE = re.compile(r"[\d.,]+ (?:s|min|h|d)\b")


class PlainLine(NamedTuple):
    text: str
    compared_values: object
    """The values whose change prints the line again; ages and figures of single steps are not among them."""


def plain_cell(cell: Cell) -> str:
    """The text of a table cell for `a4 --plain`, without bars and decorative marks."""
    runs = wording.spans_of(cell)
    words = [run for at, run in enumerate(runs) if run.text.strip() not in _GLYPHS or at == len(runs) - 1 > 0]
    return re.sub(r"\s{2,}", ", ", wording.plain_text(words).replace("‖ ", ""))


_Lines = dict[tuple[str, str], PlainLine]


def _without_age(text: str) -> str:
    return _AGE.sub("", text)


def _job_line(line: JobLine, namespace: str) -> PlainLine:
    jobset, start = line.jobset, line.expected_start
    words, own = reason_and_message(line)
    state = "" if words.startswith(line.health.state) else f"{line.health.state}: "
    parts = [words or plain_cell(reason_cell(line)), plain_cell(progress_cell(line)) if start is None else "", own]
    if start is not None and line.health.state == "pending":
        parts.append(f"starts {start_words(start, line.fleet.at)}")
    about = ", ".join(filter(None, (line.owner, wording.count(jobset.gpus, "GPU"))))
    where = f" in {jobset.namespace}" if jobset.namespace != namespace else ""
    job_progress = line.job_progress
    tenths = 10 * (job_progress.step or 0) // job_progress.total if job_progress and job_progress.total else 0
    passing = job_progress.passing if job_progress else None
    text = f"{jobset.name}{where} ({about}): {state}{'. '.join(filter(None, parts))}"
    return PlainLine(text, (line.health.state, _without_age(words), line.why.ahead, tenths, passing))


def _queue_line(line: QueueLine) -> PlainLine:
    queue = line.queue
    state = plain_cell(queue_state(queue.stop_policy, queue.inactive_reason))
    text = f"{queue.name}: {line.sum_text}. {queue.admitted} admitted, {queue.pending} waiting. {state}"
    return PlainLine(text, text)


def _pool_line(pool: Pool, now: float) -> PlainLine:
    state, nodes = plain_cell(pool_state(pool, now)), f"{pool.nodes_ready} of {wording.count(pool.nodes_total, 'node')}"
    gpus = f", {pool.floor.free} of {pool.floor.total} GPUs free" if pool.floor.total else ""
    more = f". {state}" if state != "ready" else ""
    return PlainLine(f"{pool.name}: {nodes} ready{gpus}{more}", (nodes, _without_age(state)))


def _iter_lines(session: Session, fleet: Fleet, only_namespace: str) -> Iterator[tuple[tuple[str, str], PlainLine]]:
    now = SERVER_CLOCK.now()
    fresh = [run.text for run in freshness_spans(tuple(fleet.links.values()), now)][1:]
    state = fresh[0] if fresh[0] == "live" else "".join(fresh)
    yield ("cluster", ""), PlainLine(f"{session.context}: {state}", _without_age(state))
    for pool in build_pools(fleet):
        yield ("pool", pool.name), _pool_line(pool, now)
    for node in sorted(fleet.nodes.values(), key=lambda each: each.name):
        words = plain_cell(node_state(node, now))
        text = f"{wording.short_node(node.name)}: {words}"
        yield ("node", node.name), PlainLine(text, "" if words == "ready" else _without_age(words))
    for queue in sorted(fleet.cluster_queues.values(), key=lambda each: each.name):
        yield ("queue", queue.name), _queue_line(queue_line(queue, fleet))
    jobsets = (each for each in fleet.jobsets.values() if only_namespace in {"", each.namespace})
    for line in sorted((live_line(session, each, fleet) for each in jobsets), key=lambda each: each.sort_key):
        yield ("job", "/".join(line.jobset.key)), _job_line(line, session.namespace)
    for alarm in reversed(session.alarms.latest_alarms):
        name = f"{alarm.namespace} {alarm.job} {alarm.kind} {alarm.time}"
        ended = f" ({alarm.ended_text})" if alarm.over else ""
        yield ("alarm", name), PlainLine(f"{alarm_line(alarm, session.watch)}{ended}", (alarm.over, alarm.more))


def _print_changes(lines: _Lines, before: _Lines) -> None:
    """Print the lines that are new, changed or gone; a new ready node shows only in the count of its pool."""
    nothing = PlainLine("", "")
    new = [
        (kind, line.text)
        for (kind, name), line in lines.items()
        if line.compared_values != before.get((kind, name), nothing).compared_values
    ]
    gone = [(kind, line.text) for (kind, name), line in before.items() if (kind, name) not in lines and kind != "alarm"]
    new += [(kind, f"{text.partition(':')[0]}: gone") for kind, text in gone]
    clock = time.strftime("%H:%M:%S")
    for kind in dict.fromkeys(kind for kind, _ in new):
        texts = [text for each, text in new if each == kind]
        for text in texts[:MAX_LINES_PER_KIND]:
            print_line(f"{clock} {kind} {wording.sentence(text)}")
        if len(texts) > MAX_LINES_PER_KIND:
            print_line(f"{clock} {kind}: {len(texts) - MAX_LINES_PER_KIND:,} more: {_COMMANDS[kind]}")


async def run_plain(options: Options) -> int:
    """Print the state of the cluster and its jobs as lines, then each change, until Ctrl-C."""
    warn_of_settings()
    only, printed = options.namespace, _Lines()
    async with open_session(options, PLAIN_KINDS) as session:
        if only and not any(namespace == only for namespace, _ in session.fleet.jobsets):
            await session.watch.require_namespace(only)
        for kind, reason in unread_kinds(PLAIN_KINDS, session.fleet).items():
            warn(f"{kind}: {reason}")
        await asyncio.gather(read_progress_of_jobs(session, session.fleet.jobsets.values()), session.watch.me())
        session.alarms.watch_namespace(only)
        progress_reader = asyncio.create_task(_poll_progress(session, only))
        try:
            while not progress_reader.done():
                lines = dict(_iter_lines(session, session.fleet, only))
                _print_changes(lines, printed)
                printed = lines
                await asyncio.sleep(CHANGE_POLL_SECONDS)
            progress_reader.result()
        finally:
            progress_reader.cancel()
    return 0


async def _poll_progress(session: Session, only: str) -> None:
    while True:
        await session.measures.progress_reader.update([key for key in session.fleet.jobsets if only in {"", key[0]}])
        await session.forecasts.expected_starts()
        await asyncio.sleep(PROGRESS_POLL_SECONDS)
