"""Alarms of a job whose page nobody opened: what it prints, and how it ends."""

import pytest

from console.metrics.alarm import AlarmKind
from console.session import Session
from tests.contract.cluster import soon
from tests.contract.space import Space


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_running_job_is_watched_and_its_failure_reported(session: Session, space: Space) -> None:
    await space.jobset("train", await space.queue("q", 16), 2)
    first, last = await space.pods("train", 2)
    session.alarms.watch_namespace(space.name)
    await soon(lambda: session.alarms.coverage.words == "Alarms watch 1 of 1 running job.", "the job is heard")
    lines = [f"step {number}/900 | loss {'nan' if number > 8 else 2.5} | lr 1e-4" for number in range(1, 11)]
    await space.cluster.append_log(space.api, space.name, last["metadata"]["name"], "main", lines)

    def kinds() -> list[AlarmKind]:
        return [alarm.kind for alarm in session.alarms.latest_alarms]

    await soon(lambda: AlarmKind.NAN in kinds(), "a loss that is no number is told")
    assert [alarm.kind for alarm in session.alarms.latest_alarms if alarm.is_active] == [AlarmKind.NAN]
    await space.end(first["metadata"]["name"], "Failed", 1, "Error")
    await soon(lambda: AlarmKind.FAILED in kinds(), "the job's failure is told")
    (told,) = (alarm for alarm in session.alarms.latest_alarms if alarm.kind is AlarmKind.FAILED)
    assert told.words.startswith("the job failed: ")
    assert [alarm.job for alarm in session.alarms.pop_new_alarms()] == ["train", "train"]
