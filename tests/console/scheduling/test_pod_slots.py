from console.kube.objects.jobset import JobSet, ReplicatedJob
from console.kube.objects.pod import Container, Pod
from console.scheduling.pod_slots import MISSING_STATUS, first_failure, pod_slots
from tests.fakes import fleet_of, present

JOB = JobSet("default", "train", "u1", groups=(ReplicatedJob("leader", 1, 1, 8), ReplicatedJob("worker", 2, 2, 8)))


def pod(group: str, job: int, index: int, **given_: object) -> Pod:
    facts = {"jobset": "train", "jobset_uid": "u1", "phase": "Running", "node": f"n-{group}-{job}-{index}"}
    name = str(given_.pop("name", f"train-{group}-{job}-{index}"))
    return Pod(
        "default", name, replicated_job=group, job_index=job, completion_index=index,
        **{**facts, **given_},  # type: ignore[arg-type]
    )  # fmt: skip


def ended(code: int, at: float, reason: str = "Error") -> Container:
    return Container("main", "terminated", reason, exit_code=code, finished_at=at)


def test_every_place_has_a_number_pod_or_not() -> None:
    found = pod_slots(JOB, fleet_of(JOB, pod("leader", 0, 0), pod("worker", 1, 1)))
    assert [(each.number, each.replicated_job, each.job_index, each.completion_index) for each in found] == [
        (0, "leader", 0, 0), (1, "worker", 0, 0), (2, "worker", 0, 1), (3, "worker", 1, 0), (4, "worker", 1, 1),
    ]  # fmt: skip
    assert [each.node for each in found] == ["n-leader-0-0", "", "", "", "n-worker-1-1"]
    assert (found[1].status, found[1].phase, found[1].exit_code) == (MISSING_STATUS, "", None)


def test_pods_of_an_older_attempt_do_not_fill_a_place() -> None:
    old = [
        pod("worker", 0, 0, attempt=0, name="old-0", deletion_asked_at=5.0),
        pod("worker", 0, 1, attempt=0, name="old-1"),
    ]
    found = pod_slots(JOB, fleet_of(JOB, *old, pod("worker", 0, 0, attempt=1, name="new-0")))
    assert [each.name for each in found] == ["", "new-0", "", "", ""]


def test_a_replaced_pod_gives_way_to_its_replacement() -> None:
    pods = [
        pod("leader", 0, 0, name="gone", created=9.0, deletion_asked_at=10.0),
        pod("leader", 0, 0, name="here", created=8.0),
    ]
    assert pod_slots(JOB, fleet_of(JOB, *pods))[0].name == "here"


def test_while_all_pods_are_being_deleted_the_restart_count_says_which_attempt_is_live() -> None:
    again = JobSet("default", "train", "u1", restarts=1, groups=JOB.groups)
    assert pod_slots(again, fleet_of(again, pod("leader", 0, 0, deletion_asked_at=5.0)))[0].status == MISSING_STATUS


def test_a_jobset_of_the_same_name_keeps_its_own_pods() -> None:
    assert pod_slots(JOB, fleet_of(JOB, pod("leader", 0, 0, jobset_uid="u0")))[0].name == ""


def test_the_first_failure_is_the_one_that_ended_first() -> None:
    pods = [
        pod("leader", 0, 0, phase="Failed", containers=(ended(1, 30.0),)),
        pod("worker", 0, 1, phase="Failed", containers=(ended(137, 10.0, "OOMKilled"),)),
        pod("worker", 1, 0, containers=(Container("main", "running"),)),
        pod("worker", 1, 1, phase="Succeeded", containers=(ended(0, 5.0, "Completed"),)),
    ]
    first = present(first_failure(JOB, fleet_of(JOB, *pods)))
    assert (first.number, first.exit_code, first.status) == (2, 137, "OOMKilled")


def test_a_failed_init_container_counts_and_a_finished_one_does_not() -> None:
    init = Container("setup", "terminated", "Completed", exit_code=0, init=True)
    bad = Container("setup", "terminated", "Error", exit_code=3, init=True)
    found = pod_slots(
        JOB, fleet_of(JOB, pod("leader", 0, 0, containers=(init,)), pod("worker", 0, 0, containers=(bad,)))
    )
    assert (found[0].exit_code, found[0].failed, found[1].exit_code, found[1].failed) == (None, False, 3, True)


def test_nothing_failed() -> None:
    assert first_failure(JOB, fleet_of(JOB, pod("leader", 0, 0))) is None
