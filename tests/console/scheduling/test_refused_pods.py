"""Pods that the API server refuses to a Job: told with its words and the next step."""

import pytest
from msgspec import structs
from msgspec.structs import replace

from console.kube.objects.event import Event
from console.kube.objects.jobset import Job
from console.metrics.health import HealthLevel, job_health
from console.scheduling.why import Category
from console.scheduling.why_job import latest_refusal, why_job, why_refused
from tests.fakes import fleet_of
from tests.screens.scene import jobset, rank

TRAIN = jobset("train", 2)
JOB = Job("default", "train-workload-0", uid="job", jobset_uid=TRAIN.uid)
NOPE = 'error looking up service account default/nope: serviceaccount "nope" not found'
GPUS = "requests.nvidia.com/gpu"
UNNAMED = "failed quota: few: must specify requests.cpu for: main; memory for: gib,main"
QUOTA = f"exceeded quota: few, requested: {GPUS}=8, used: {GPUS}=0, limited: {GPUS}=4"


def event_of(message: str, reason: str = "FailedCreate", last: float = 10.0, uid: str = "job") -> Event:
    return Event("default", f"e-{reason}-{last}", kind="Job", object_name=JOB.name, object_uid=uid, type="Warning",
                 reason=reason, message=message, last=last)  # fmt: skip


@pytest.mark.parametrize(
    ("message", "words", "step"),
    [
        (f'Error creating: pods "train-workload-0-0-" is forbidden: {NOPE}', NOPE,
         "kubectl create serviceaccount nope -n default"),
        (f'Error creating: pods "train-workload-0-0-abcde" is forbidden: {QUOTA}', QUOTA,
         "ResourceQuota few of namespace default"),
        (f'Error creating: pods "x" is forbidden: {UNNAMED}', UNNAMED,
         "launch with --set requests.cpu=AMOUNT, --set requests.memory=AMOUNT"),
        ('Error creating: admission webhook "images.corp.example" denied the request: only from our registry',
         'admission webhook "images.corp.example" denied the request: only from our registry',
         "(images.corp.example)"),
        ('Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged (main)',
         'violates PodSecurity "restricted:latest": privileged (main)', "level restricted:latest"),
        ("Error creating: something new", "something new", "launch again"),
    ],
    ids=["account", "quota", "requests", "webhook", "pod security", "unknown"],
)  # fmt: skip
def test_what_is_refused_is_why_it_does_not_run(message: str, words: str, step: str) -> None:
    fleet = fleet_of(TRAIN, JOB, event_of(message))
    why = why_job(TRAIN, fleet)
    assert (why.category, why.sentence) == (Category.REFUSED, f"its pods are refused: {words}")
    assert step in why.next
    assert why.api_text == message.removeprefix("Error creating: ")
    health = job_health(TRAIN, fleet)
    assert (health.state, health.level) == ("refused", HealthLevel.BAD)


@pytest.mark.parametrize(
    ("seconds", "last", "category"),
    [
        (2.0, 10.0, Category.STARTING),  # the webhook of Kueue did not know the JobSet yet: two seconds later it runs
        (29.0, 10.0, Category.STARTING), (31.0, 10.0, Category.REFUSED), (2.0, 41.0, Category.REFUSED),
    ],
)  # fmt: skip
@pytest.mark.parametrize("reason", ["FailedCreate", "JobCreationFailed"])
def test_a_refusal_is_final_once_it_has_lasted(reason: str, seconds: float, last: float, category: Category) -> None:
    event = replace(event_of('JobSet "train" not found', reason, last), first=10.0)
    fleet = structs.replace(fleet_of(TRAIN, JOB, event), at=10.0 + seconds)
    assert why_job(TRAIN, fleet).category is category
    assert (job_health(TRAIN, fleet).state == "refused") == (category is Category.REFUSED)


def test_a_webhook_that_does_not_know_the_job_yet_asks_for_no_change() -> None:
    message = 'creation failed with error: admission webhook "mjob.kb.io" denied the request: JobSet "q" not found'
    refusal = Event("default", "e", kind="JobSet", object_name="q", type="Warning", reason="JobCreationFailed",
                    message=message, first=100.0, last=101.0)  # fmt: skip
    passing, lasting = why_refused(refusal, 103.0), why_refused(refusal, 140.0)
    assert (passing.category, passing.next, "refused" in passing.sentence) == (Category.STARTING, "", False)
    assert (lasting.category, "(mjob.kb.io)" in lasting.next) == (Category.REFUSED, True)


def test_what_was_refused_before_is_over_once_its_pods_are_made() -> None:
    refused = event_of(f'Error creating: pods "a" is forbidden: {NOPE}')
    made = event_of("Created pod: train-workload-0-0-x", "SuccessfulCreate", 11.0)
    assert latest_refusal([refused, made]) is None
    assert latest_refusal([refused, replace(made, last=9.0)]) == refused
    assert latest_refusal([refused, replace(made, object_uid="another")]) == refused
    every = fleet_of(TRAIN, JOB, refused, rank(TRAIN, 0, "n0"), rank(TRAIN, 1, "n1"))
    assert why_job(TRAIN, every).category is Category.RUNNING


def test_a_refusal_of_a_job_of_the_same_name_before_it_is_not_its_own() -> None:
    fleet = fleet_of(TRAIN, JOB, event_of(f'Error creating: pods "a" is forbidden: {NOPE}', uid="older"))
    assert why_job(TRAIN, fleet).category is not Category.REFUSED
