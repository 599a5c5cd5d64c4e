"""Which pod somebody deleted, told by events, and the card that names it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.errors import NotFound
from console.kube.objects.event import Event
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import Condition
from console.kube.objects.pod import Container
from console.logs.container_log import LogStream
from console.logs.job_log import JobLog
from console.logs.log_segment import LogSegment
from console.logs.log_service import LogService
from console.scheduling.pod_failure import (
    FailureCard,
    deduplicate,
    first_deletion,
    first_of_latest_attempt,
    rank_failures,
)
from console.scheduling.why_job import why_job
from tests.fakes import fleet_of, present
from tests.screens.scene import NOW, jobset, rank

RANKS = 16
BEGAN = int(NOW) - 99.7


def event(kind: str, name: str, reason: str, at: float, message: str = "", *, count: int = 1, uid: str = "") -> Event:
    """An event `at` seconds after BEGAN, in the shape of the old recorder: seconds, and a name with nanoseconds."""
    moment = BEGAN + at
    return Event(
        "default", f"{name}.{int(moment * 1e6) * 1000:x}", kind=kind, object_name=name,
        object_uid=uid or f"uid of {name}",
        reason=reason, message=message, count=count, first=float(int(moment)), last=float(int(moment)),
    )  # fmt: skip


def name(number: int, of: str = "train") -> str:
    return f"{of}-workload-0-{number}-abcd{number:x}"


def killed(number: int, at: float) -> Event:
    return event("Pod", name(number), "Killing", at, "Stopping container main")


def by_job(*numbers: int, at: float) -> list[Event]:
    """The Job deletes pods: of more than ten, the rest is combined into one event."""
    whole = [event("Job", "train-workload-0", "SuccessfulDelete", at + each / 1e4, f"Deleted pod: {name(each)}")
             for each in numbers[:9]]  # fmt: skip
    last = name(numbers[-1])
    text = f"(combined from similar events): Deleted pod: {last}"
    more = event("Job", "train-workload-0", "SuccessfulDelete", at + 0.5, text, count=len(numbers) - 9)
    return whole + ([more] if len(numbers) > 9 else [])


def after(number: int, at: float = 0.0, ranks: int = RANKS) -> list[Event]:
    """Somebody deletes the pod of one rank; a second later its Job fails, and takes the others away."""
    others = [each for each in range(ranks) if each != number]
    return [
        killed(number, at), *by_job(*others, at=at + 1.0), *(killed(each, at + 1.1) for each in others),
        event("Job", "train-workload-0", "BackoffLimitExceeded", at + 5),
    ]  # fmt: skip


def failed(restarts: int = 0) -> JobSet:
    over = Condition("Failed", "True", "ReachedMaxRestarts", "jobset failed due to reaching max number of restarts")
    return replace(jobset("train", RANKS), conditions=(over,), restarts=restarts)


@pytest.mark.parametrize("ranks", [4, RANKS])
def test_the_pod_that_its_job_did_not_delete_is_named(ranks: int) -> None:
    fleet = fleet_of(failed(), *after(3, ranks=ranks))
    found = present(first_deletion(failed(), fleet))
    assert (found.rank, found.pod, found.attempt) == (3, name(3), 0)
    assert why_job(failed(), fleet).sentence == "failed: pod 3 was deleted"
    first = present(first_of_latest_attempt(rank_failures(failed(), fleet)))
    assert FailureCard(*first).text_lines()[0].startswith("Pod 3 was deleted, ")


def test_pods_that_controllers_took_away_were_not_deleted_by_others() -> None:
    crash = [event("Job", "train-workload-0", "BackoffLimitExceeded", 0.0)]
    everyone = range(RANKS)
    by_its_job = [*by_job(*everyone, at=0.0), *(killed(each, 0.02) for each in everyone)]
    assert first_deletion(failed(), fleet_of(failed(), *by_its_job)) is None
    with_its_job = [*crash, *(killed(each, 0.4) for each in everyone)]
    assert first_deletion(failed(), fleet_of(failed(), *with_its_job)) is None
    evicted = [killed(3, 0.0), event("Pod", name(3), "TaintManagerEviction", 0.0)]
    assert first_deletion(failed(), fleet_of(failed(), *evicted)) is None
    probe = [event("Pod", name(3), "Killing", 0.0, "Container main failed liveness probe, will be restarted")]
    assert first_deletion(failed(), fleet_of(failed(), *probe)) is None
    done = replace(jobset("train", RANKS), conditions=(Condition("Completed", "True"),))
    assert first_deletion(done, fleet_of(done, killed(3, 0.0))) is None


def test_the_attempt_is_that_in_which_the_pod_lived() -> None:
    again = failed(restarts=1)
    restart = event("JobSet", "train", "RestartJobSetFailurePolicyAction", 6.0, uid=again.uid)
    cleared = [killed(5, 6.2)]  # with the Job of the attempt before
    found = present(first_deletion(again, fleet_of(again, *after(3), restart, *cleared)))
    assert (found.rank, found.attempt) == (3, 0)
    new = f"{name(7)[:-5]}fresh"
    lives = [event("Pod", new, "Scheduled", 20.0), event("Pod", new, "Killing", 60.0, "Stopping container main")]
    found = present(first_deletion(again, fleet_of(again, *after(3), restart, *cleared, *lives)))
    assert (found.rank, found.attempt) == (7, 1)


async def test_lines_on_the_card_are_of_the_pod_that_was_deleted_not_of_the_one_in_its_place(tmp_path: Path) -> None:
    fleet = fleet_of(failed(), *after(3))
    cluster: Any = SimpleNamespace(fleet=fleet, context="ctx", server="")

    def part(pod: str, uid: str, text: bytes) -> LogSegment:
        made = LogSegment(3, pod=pod, uid=uid)
        made.append_lines([(1.0, b"1970-01-01T00:00:01Z " + text)])
        return made

    def gone(*_: object, **__: object) -> LogStream:
        raise NotFound("There is no such pod.")

    logs = LogService(cluster, gone, tmp_path)

    async def event(*parts: LogSegment) -> list[str]:
        logs._open_logs["default", "train"] = cast("JobLog", SimpleNamespace(parts=parts))
        found = present(await logs.first_failure("default", "train"))
        return found.text_lines()

    for named in (f"{name(3)[:-5]}fresh", ""):  # what was read from the disk has no name
        note = await event(part(named, "fresh", b"of the new one"))
        assert "No log of that pod is known." in note
        assert not any("of the new one" in each for each in note)
    old = part(name(3), f"uid of {name(3)}", b"of the old one")
    assert (await event(old, part("", "fresh", b"of the new one")))[-1] == "  of the old one"


def test_how_the_deleted_pod_ended_stands_on_its_card_and_the_others_come_after() -> None:
    def ended(number: int, at: float) -> object:
        over = Container("main", "terminated", "Error", exit_code=143, finished_at=float(int(BEGAN + at)))
        pod = rank(job, number, f"node-{number}", phase="Failed", containers=(over,), ready=False)
        return structs.replace(pod, name=name(number), deletion_asked_at=BEGAN + at + 30)

    job = failed()
    pods = [ended(number, 0.1) for number in (0, 3, 5)]
    found = rank_failures(job, fleet_of(job, *pods, *after(3)))
    kept = rank_failures(job, fleet_of(job, *pods))  # as they were told before the event came
    first = present(first_of_latest_attempt(deduplicate(found + kept)))
    words = FailureCard(*first).text_lines()
    assert words[0].startswith("Pod 3 was deleted (exit code 143 (SIGTERM)) on node-3, ")
    assert words[-1] == "After it: pods 0, 5."
