"""What the API server refuses: pods, Jobs and JobSets that are wrong, in its own words."""

import pytest

from console.kube.nested_values import Value
from console.launch.recipes import LaunchPlan
from console.scheduling.why_job import why_job
from console.session import Session
from tests.contract.client import Object
from tests.contract.cluster import BATCH, CORE, JOBSETS, eventually
from tests.contract.space import GPU, Space, container
from tests.fakes import present

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
VARIABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
SOURCES = "`fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def main(**more: object) -> Object:
    return {"containers": [{**container("main"), **more}]}


def mounted(*mounts: Object) -> Object:
    names = sorted({mount["name"] for mount in mounts})
    return {**main(volumeMounts=list(mounts)), "volumes": [{"name": name, "emptyDir": {}} for name in names]}


def at(name: str, where: str, **more: object) -> Object:
    return {"name": name, "mountPath": where, **more}


TWICE = mounted(at("a", "/dev/shm"), at("b", "/dev/shm"))
REFUSED: dict[str, tuple[Object, str]] = {
    "two mounts on one path": (
        TWICE, 'containers[0].volumeMounts[1].mountPath: Invalid value: "/dev/shm": must be unique',
    ),
    "a mount without its volume": (
        main(volumeMounts=[at("a", "/x")]), 'containers[0].volumeMounts[0].name: Not found: "a"',
    ),
    "a mount without a path": (mounted(at("a", "")), "containers[0].volumeMounts[0].mountPath: Required value"),
    "a mount of what is above": (
        mounted(at("a", "/x", subPath="../y")),
        "containers[0].volumeMounts.subPath: Invalid value: \"../y\": must not contain '..'",
    ),
    "a port that is too large": (
        main(ports=[{"containerPort": 99999}]),
        "containers[0].ports[0].containerPort: Invalid value: 99999: must be between 1 and 65535, inclusive",
    ),
    "a port of 0": (main(ports=[{"containerPort": 0}]), "containers[0].ports[0].containerPort: Required value"),
    "a port with a wrong name": (
        main(ports=[{"containerPort": 22, "name": "A_b"}]),
        'containers[0].ports[0].name: Invalid value: "A_b": '
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    ),
    "a port with a long name": (
        main(ports=[{"containerPort": 22, "name": "abcdefghijklmnopqrst"}]),
        'containers[0].ports[0].name: Invalid value: "abcdefghijklmnopqrst": must be no more than 15 characters',
    ),
    "two ports of one name": (
        main(ports=[{"containerPort": 22, "name": "a"}, {"containerPort": 23, "name": "a"}]),
        'containers[0].ports[1].name: Duplicate value: "a"',
    ),
    "a port of another protocol": (
        main(ports=[{"containerPort": 22, "protocol": "HTTP"}]),
        'containers[0].ports[0].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP"',
    ),
    "another port of the host": (
        {**main(ports=[{"containerPort": 22, "hostPort": 23}]), "hostNetwork": True},
        "containers[0].ports[0].hostPort: Invalid value: 23: must match `containerPort` when `hostNetwork` is true",
    ),
    "a variable with an equals sign": (
        main(env=[{"name": "1=BAD", "value": "x"}]),
        f'containers[0].env[0].name: Invalid value: "1=BAD": {VARIABLE}',
    ),
    "a variable that is not ASCII": (
        main(env=[{"name": "é", "value": "x"}]), f'containers[0].env[0].name: Invalid value: "é": {VARIABLE}',
    ),
    "a variable without a name": (
        main(env=[{"name": "", "value": "x"}]), "containers[0].env[0].name: Required value",
    ),
    "a variable from nowhere": (
        main(env=[{"name": "A", "valueFrom": {}}]),
        f'containers[0].env[0].valueFrom: Invalid value: "": must specify one of: {SOURCES}',
    ),
    "a variable with a value and a source": (
        main(env=[{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]),
        'containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    "a variable of an unknown field": (
        main(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nope"}}}]),
        'containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.nope": '
        "error converting fieldPath: field label not supported: metadata.nope",
    ),
    "a variable of a Secret without a key": (
        main(env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x", "key": ""}}}]),
        "containers[0].env[0].valueFrom.secretKeyRef.key: Required value",
    ),
    "two volumes of one name": (
        {"volumes": [{"name": "a", "emptyDir": {}}] * 2}, 'volumes[1].name: Duplicate value: "a"',
    ),
    "a volume of two kinds": (
        {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        "volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    "a volume with a wrong name": (
        {"volumes": [{"name": "A_b", "emptyDir": {}}]}, f'volumes[0].name: Invalid value: "A_b": {LABEL}',
    ),
    "a volume without a claim": (
        {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]},
        "volumes[0].persistentVolumeClaim.claimName: Required value",
    ),
    "a volume without a driver": (
        {"volumes": [{"name": "a", "csi": {"driver": ""}}]}, "volumes[0].csi.driver: Required value",
    ),
    "two containers of one name": (
        {"containers": [container("main")] * 2}, 'containers[1].name: Duplicate value: "main"',
    ),
    "a container with a wrong name": (
        {"containers": [container("A_b")]}, f'containers[0].name: Invalid value: "A_b": {LABEL}',
    ),
    "a container without an image": (main(image=""), "containers[0].image: Required value"),
    "an unknown pull policy": (
        main(imagePullPolicy="Sometimes"),
        'containers[0].imagePullPolicy: Unsupported value: "Sometimes": '
        'supported values: "Always", "IfNotPresent", "Never"',
    ),
    "more CPU than its limit": (
        main(resources={"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
        'containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    "a node label that cannot be": (
        {"nodeSelector": {"a": "no value!"}}, f'nodeSelector: Invalid value: "no value!": {VALUE}',
    ),
    "an affinity to nothing": (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "a", "operator": "In", "values": []}]}]}}}},
        "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
        ".matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    "a deadline of nothing": (
        {"activeDeadlineSeconds": 0},
        "activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
    ),
    "an unknown DNS policy": (
        {"dnsPolicy": "Nope"},
        'dnsPolicy: Unsupported value: "Nope": '
        'supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"',
    ),
}  # fmt: skip
"""What is wrong -> the part of a pod's spec, and what is said of it, below the path of the spec."""
AMOUNTS = {
    "half a GPU": ("1.5", '"1500m": must be an integer'),
    "less than no GPU": ("-1", '"-1": must be greater than or equal to 0'),
}
ITEM = "spec.replicatedJobs[0].template.spec.template.spec"
REPEATED: dict[str, tuple[Object, str]] = {
    "two mounts on one path": (TWICE, 'containers[0].volumeMounts[1]: Duplicate value: {"mountPath":"/dev/shm"}'),
    "two volumes of one name": (
        {"volumes": [{"name": "a", "emptyDir": {}}] * 2}, 'volumes[1]: Duplicate value: {"name":"a"}',
    ),
    "two variables of one name": (
        main(env=[{"name": "A", "value": "x"}, {"name": "A", "value": "y"}]),
        'containers[0].env[1]: Duplicate value: {"name":"A"}',
    ),
    "one port twice": (
        main(ports=[{"containerPort": 22}] * 2),
        'containers[0].ports[1]: Duplicate value: {"containerPort":22,"protocol":"TCP"}',
    ),
    "two containers of one name": (
        {"containers": [container("main")] * 2}, 'containers[1]: Duplicate value: {"name":"main"}',
    ),
}  # fmt: skip


def spec_of(part: Object) -> Object:
    return {"restartPolicy": "Never", "containers": [container("main")], **part}


def pod(part: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec_of(part)}


def job(part: Object, **template: object) -> Object:
    spec = {"template": {**template, "spec": spec_of(part)}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec}


def jobset(part: Object) -> Object:
    """With one Job of one pod, in no queue."""
    inner = {"parallelism": 1, "completions": 1, "backoffLimit": 0, "template": {"spec": spec_of(part)}}
    replicated = [{"name": "w", "replicas": 1, "template": {"spec": inner}}]
    meta = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "a"}}
    return {**meta, "spec": {"replicatedJobs": replicated}}


async def accounted(space: Space) -> None:
    """A namespace is a moment older than the account its pods run as."""

    async def there() -> bool:
        return (await space.api.get(space.path(CORE, "serviceaccounts", "default"))).status == 200

    await eventually(there, "the namespace has an account for pods")


@pytest.mark.parametrize("what", REFUSED)
async def test_a_pod_and_a_job_that_are_wrong(space: Space, what: str) -> None:
    part, told = REFUSED[what]
    await accounted(space)
    answer = await space.api.create(space.path(CORE, "pods"), pod(part), dryRun="All")
    assert answer.refused(422, "Invalid") == f'Pod "a" is invalid: spec.{told}'
    answer = await space.api.create(space.path(BATCH, "jobs"), job(part), dryRun="All")
    assert answer.refused(422, "Invalid") == f'Job.batch "a" is invalid: spec.template.spec.{told}'


@pytest.mark.parametrize("what", AMOUNTS)
async def test_an_amount_of_gpus_that_cannot_be(space: Space, what: str) -> None:
    asked, told = AMOUNTS[what]
    part = main(resources={"limits": {GPU: asked}})
    answer = await space.api.create(space.path(BATCH, "jobs"), job(part), dryRun="All")
    path = f"spec.template.spec.containers[0].resources.limits[{GPU}]"
    assert answer.refused(422, "Invalid") == f'Job.batch "a" is invalid: {path}: Invalid value: {told}'


async def test_a_resource_that_is_none(space: Space) -> None:
    part = main(resources={"limits": {"gpu": "1"}})
    message = (await space.api.create(space.path(BATCH, "jobs"), job(part), dryRun="All")).refused(422, "Invalid")
    path = 'spec.template.spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource'
    assert message == f'Job.batch "a" is invalid: [{path} type or fully qualified, {path} for containers]'


async def test_a_pod_that_never_restarts_is_what_a_job_needs(space: Space) -> None:
    for policy in ({"restartPolicy": "Always"}, {"restartPolicy": None}):
        answer = await space.api.create(space.path(BATCH, "jobs"), job(policy), dryRun="All")
        assert answer.refused(422, "Invalid") == (
            'Job.batch "a" is invalid: spec.template.spec.restartPolicy: Required value: '
            'valid values: "OnFailure", "Never"'
        )


async def test_a_template_with_an_annotation_that_cannot_be(space: Space) -> None:
    body = job({}, metadata={"annotations": {"no key!": "x"}})
    message = (await space.api.create(space.path(BATCH, "jobs"), body, dryRun="All")).refused(422, "Invalid")
    assert message.startswith(
        'Job.batch "a" is invalid: spec.template.annotations: Invalid value: "no key!": name part '
    )


@pytest.mark.parametrize("what", REPEATED)
async def test_a_job_set_refuses_what_stands_twice(space: Space, what: str) -> None:
    part, told = REPEATED[what]
    answer = await space.api.create(space.path(JOBSETS, "jobsets"), jobset(part), dryRun="All")
    assert answer.refused(422, "Invalid") == f'JobSet.jobset.x-k8s.io "a" is invalid: {ITEM}.{told}'


@pytest.mark.parametrize(
    "what",
    ["a mount without its volume", "a port that is too large", "a variable with an equals sign",
     "a volume with a wrong name", "a container without an image"],
)  # fmt: skip
async def test_what_a_job_set_takes_and_its_job_is_refused(space: Space, what: str) -> None:
    """The JobSet stands, nothing runs, and only an event of it says why."""
    part, told = REFUSED[what]
    answer = await space.api.create(space.path(JOBSETS, "jobsets"), jobset(part))
    assert answer.status == 201, answer.body
    event = await first_event(space, "JobSet", "JobCreationFailed")
    why = f'Job.batch "a-w-0" is invalid: spec.template.spec.{told}'
    assert event["message"] == f'job "a-w-0" creation failed with error: {why}'
    assert (event["type"], event["involvedObject"]["name"]) == ("Warning", "a")
    assert await space.items(BATCH, "jobs") == []
    found = (await space.api.get(space.path(JOBSETS, "jobsets", "a"))).made
    assert not found.get("status", {}).get("conditions")


async def first_event(space: Space, kind: str, reason: str) -> Object:
    """The first event of that reason about an object of that kind."""

    async def probe() -> Object | None:
        events = await space.items(CORE, "events")
        fitting = [each for each in events if each["reason"] == reason and each["involvedObject"]["kind"] == kind]
        return fitting[0] if fitting else None

    return present(await eventually(probe, f"an event {reason} of a {kind}"))


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.parametrize(
    ("part", "why"),
    [
        (
            {"serviceAccountName": "nope"},
            'error looking up service account <namespace>/nope: serviceaccount "nope" not found',
        ),
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
    ],
    ids=["account", "priority"],
)
async def test_a_pod_of_a_job_that_may_not_be(space: Space, part: Object, why: str) -> None:
    """The Job runs without a pod, and an event of it says why."""
    await accounted(space)
    answer = await space.api.create(space.path(CORE, "pods"), pod(part))
    assert space.plain(answer.refused(403, "Forbidden")) == f'pods "a" is forbidden: {why}'
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), jobset(part))).status == 201
    event = await first_event(space, "Job", "FailedCreate")
    assert space.plain(event["message"]) == f'Error creating: pods "a-w-0-0-" is forbidden: {why}'
    assert (event["type"], event["source"]["component"]) == ("Warning", "job-controller")

    async def again() -> bool:
        return bool((await first_event(space, "Job", "FailedCreate"))["count"] > 1)

    await eventually(again, "it is tried again")
    assert await space.items(CORE, "pods") == []
    found = await space.wait(BATCH, "jobs", "a-w-0", lambda item: "startTime" in item.get("status", {}))
    assert "active" not in found["status"]
    assert not found["status"].get("conditions")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_job_gets_its_pod_once_the_account_is_there(space: Space) -> None:
    body = jobset({"serviceAccountName": "late"})
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), body)).status == 201
    await first_event(space, "Job", "FailedCreate")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "late"}}
    assert (await space.api.create(space.path(CORE, "serviceaccounts"), account)).status == 201

    async def made() -> bool:
        return len(await space.items(CORE, "pods")) == 1

    await eventually(made, "the pod is there")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_a_launch_answers_that_its_pods_are_refused(session: Session, space: Space) -> None:
    """And so does whoever asks why later, until the account is there."""
    await accounted(space)
    await space.queue("team", 64)
    values: dict[str, Value] = {"queue": "team", "serviceAccount": "nope", "gpus": 8}
    await session.launch.install(LaunchPlan("interactive", "train", space.name, values))
    refused = present(await session.launch.wait_for_refusal(space.name, "train"))
    words = f'error looking up service account {space.name}/nope: serviceaccount "nope" not found'
    assert refused.sentence == f"its pods were refused and are tried again: {words}"
    assert refused.next.startswith(f"Create the ServiceAccount (kubectl create serviceaccount nope -n {space.name})")

    async def why_names_refusal() -> bool:
        job = session.fleet.jobsets.get((space.name, "train"))
        return job is not None and "its pods were refused" in why_job(job, session.fleet).sentence

    await eventually(why_names_refusal, "why tells it")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nope"}}
    assert (await space.api.create(space.path(CORE, "serviceaccounts"), account)).status == 201

    async def over() -> bool:
        return not await why_names_refusal()

    await eventually(over, "its pod is made", 60)
    await session.launch.stop(space.name, "train")


async def quota(space: Space, **hard: str) -> None:
    """A ResourceQuota, once the cluster has counted for it."""
    limits = {key.replace("__", "/").replace("_", "."): value for key, value in hard.items()}
    body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": limits}}
    assert (await space.api.create(space.path(CORE, "resourcequotas"), body)).status == 201
    await space.wait(CORE, "resourcequotas", "few", lambda item: bool(item.get("status", {}).get("used")))


async def test_a_quota_of_the_namespace_that_is_exceeded(space: Space) -> None:
    await accounted(space)
    await quota(space, pods="5", requests_nvidia_com__gpu="4")
    eight = {"containers": [container("main", 8)]}
    gpus = f"requests.{GPU}"
    why = f"exceeded quota: few, requested: {gpus}=8, used: {gpus}=0, limited: {gpus}=4"
    answer = await space.api.create(space.path(CORE, "pods"), pod(eight))
    assert answer.refused(403, "Forbidden") == f'pods "a" is forbidden: {why}'
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), jobset(eight))).status == 201
    event = await first_event(space, "Job", "FailedCreate")
    assert event["message"].startswith('Error creating: pods "a-w-0-0-')
    assert event["message"].endswith(f'" is forbidden: {why}')


async def test_a_quota_counts_what_is_used(space: Space) -> None:
    await accounted(space)
    await quota(space, pods="2", requests_nvidia_com__gpu="16")
    await space.pod("one", containers=[container("main", 2)])

    def used(item: Object) -> bool:
        return bool(item["status"]["used"] == {"pods": "1", f"requests.{GPU}": "2"})

    found = await space.wait(CORE, "resourcequotas", "few", used)
    assert found["status"]["hard"] == {"pods": "2", f"requests.{GPU}": "16"}
    await space.pod("two")
    message = (await space.api.create(space.path(CORE, "pods"), pod({}))).refused(403, "Forbidden")
    assert message == 'pods "a" is forbidden: exceeded quota: few, requested: pods=1, used: pods=2, limited: pods=2'
    await space.end("one")

    async def room() -> bool:
        return (await space.api.create(space.path(CORE, "pods"), pod({}), dryRun="All")).status == 201

    await eventually(room, "a pod that has ended counts no more")


async def test_a_quota_of_cpu_wants_every_pod_to_say_what_it_takes(space: Space) -> None:
    await accounted(space)
    await quota(space, limits_cpu="100")
    message = (await space.api.create(space.path(CORE, "pods"), pod({}))).refused(403, "Forbidden")
    assert message == 'pods "a" is forbidden: failed quota: few: must specify limits.cpu for: main'
