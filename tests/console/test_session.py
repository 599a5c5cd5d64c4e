"""The session against a server that is killed, refuses, and comes back."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import uuid4

import pytest
from aiohttp import web
from msgspec import structs

from console.connection_settings import Settings
from console.errors import BadKubeconfig, NotAllowed, NotLoggedIn, Unreachable
from console.hang.inspector import JobInspector
from console.hang.own_job_inspector import OwnJobInspector
from console.kube.objects.jobset import JobSet
from console.kube.objects.meta import short_name
from console.kube.snapshot import FLEET_FIELDS, WatchState
from console.launch.ownership import Proof
from console.launch.run_record import RunRecord
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from console.session import Session
from rankscope import HangReport, PodTrace
from tests.apiserver import ApiServer, eventually, forbidden, named
from tests.console.hang.test_inspector import JOB as HUNG, Cluster as Inspected
from tests.fakes import FakeSession, fleet_of
from tests.screens import scene

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LOGS = FIXTURES.parents[1] / "parts" / "trainlog" / "tests" / "data"
PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/jobsets"
EXEC = "client.authentication.k8s.io/v1"
MINE = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets/train"


@asynccontextmanager
async def opened(
    server: ApiServer, folder: Path, *, kinds: Any = None, only: Any = None, **settings: Any
) -> AsyncIterator[Session]:
    session = await Session.open(
        Settings(kubeconfig=server.kubeconfig(folder), **settings), kinds=kinds, selectors=only
    )
    try:
        yield session
    finally:
        await session.close()


def state(session: Session, kind: str) -> WatchState:
    return session.fleet.links[kind].state


async def test_everything_is_watched_and_the_version_known(tmp_path: Path, server: ApiServer) -> None:
    server.put(PODS, named("a"))
    async with opened(server, tmp_path) as session:
        fleet = await session.wait_until_listed()
        assert {link.state for link in fleet.links.values()} == {WatchState.LIVE}
        assert set(fleet.links) == set(FLEET_FIELDS)
        assert fleet.links["workloads"].version == "kueue.x-k8s.io/v1beta2"
        assert list(fleet.pods) == [("default", "a")]
        await eventually(lambda: session.watch.server_version == "v1.36.4-test")


ALL = {"hang", "NCCL"}
SAYS = "its label says that it is yours, but the run history of this account does not know it"


@pytest.mark.parametrize(
    ("label", "history", "trusts", "answer", "proof", "may"),
    [
        ("me", "has it", False, "", Proof.LAUNCHED, ALL), ("mira", "has it", False, "", Proof.LAUNCHED, ALL),
        ("", "has it", True, "no", Proof.LAUNCHED, ALL), ("me", "", False, "", Proof.LABEL, set()),
        ("me", "another uid", False, "", Proof.LABEL, set()), ("me", "another server", False, "", Proof.LABEL, set()),
        ("me", "", False, "no", Proof.LABEL, set()),
        ("me", "", False, "yes", Proof.AGREED, ALL),
        ("mira", "", False, "yes", Proof.NONE, set()), ("me", "", True, "", Proof.PROTECTED, ALL),
        ("me", "", True, "no", Proof.PROTECTED, ALL), ("owner=me", "", True, "", Proof.LABEL, set()),
        ("mira", "", True, "yes", Proof.NONE, set()), ("", "", True, "yes", Proof.NONE, set()),
    ],
)  # fmt: skip
async def test_whose_job_one_is_rests_on_what_is_proven_and_the_label_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, label: str, history: str, answer: str, proof: Proof,
    may: set[str], *, trusts: bool,
) -> None:  # fmt: skip
    asked: list[str] = []

    class Inspector:
        async def find_slow_ranks(self, *_: Any, **more: Any) -> None:
            asked.append("NCCL" if more == {"only_nccl": True} else "more")

        async def inspect_job(self, *_: str) -> HangReport:
            asked.append("hang")
            return HangReport("train", (PodTrace(0, "train-0", "n0"),), ())

    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "a4").mkdir()
    (tmp_path / "a4" / "config.toml").write_text(f"[actions]\ntrusts = {['test'] if trusts else ['prod']}\n")
    async with ApiServer() as server, opened(server, tmp_path, kinds=["pods"]) as session:
        me = short_name(await session.watch.me())
        owner = label.replace("owner=", "").replace("me", me)
        job = scene.jobset("train", 1, owner=owner, owner_labelled=label in {"me", "mira"})
        job = structs.replace(job, uid=f"uid-{uuid4()}")
        watch, owner_of = session.watch, session.watch.format_owner
        cluster = SimpleNamespace(fleet=fleet_of(job), format_owner=owner_of, context=watch.context, me=watch.me)
        jobs = OwnJobInspector(cast("Any", cluster), lambda: session.launch.runs, lambda: cast("Any", Inspector()),
                       session.diagnoses)  # fmt: skip
        differs = {"another uid": {"uid": "u"}, "another server": {"server": "s"}}
        if history:
            await launched(session, job, **differs.get(history, {}))
        if answer:
            await session.diagnoses.record(Diagnosis(job.uid, DiagnosisKind.CONSENT, time.time(), answer))
        for key in (job.key, ("default", "gone")):
            for look in (jobs.inspect(key), jobs.find_late_rank(key, 2.0)):
                with nullcontext() if may or key != job.key else pytest.raises(NotAllowed) as refused:
                    await look
                if refused is not None:
                    assert str(refused.value) == (SAYS if owner == me else f"{owner or 'somebody else'} launched it")
        assert (jobs.proof_of(job), {*asked}) == (proof, may)
        assert session.watch.format_owner(job.owner) == ("you" if owner == me else owner), "what is shown is the label"


async def test_in_read_only_mode_nothing_runs_unasked_in_a_job_of_ones_own() -> None:
    session, inspected = FakeSession(fleet_of(HUNG)), Inspected(read_only=True)
    session.proof = Proof.LAUNCHED
    session.launch.runs.runs = [RunRecord("own-script", HUNG.name, HUNG.namespace, uid=HUNG.uid)]
    with pytest.raises(NotAllowed, match="read-only"):
        await own_jobs(session, JobInspector(cast("Any", inspected))).inspect(HUNG.key)


def own_jobs(session: FakeSession, inspector: Any) -> OwnJobInspector:
    return OwnJobInspector(
        cast("Any", session), lambda: cast("Any", session.launch.runs), lambda: inspector, session.diagnoses
    )


async def launched(session: Session, job: JobSet, **differs: str) -> None:
    """Have the run history know that launch, or one that differs."""
    about: dict[str, Any] = {"server": session.watch.server, "uid": job.uid, **differs}
    await session.launch.runs.history.add_run(RunRecord("own-script", job.name, job.namespace, **about))


async def test_what_is_inspected_unasked_leaves_a_bundle_where_it_names_a_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    job = scene.jobset("train", 1)
    session = FakeSession(fleet_of(job, scene.rank(job, 0, "n0")))
    session.launch.runs.runs = [RunRecord("own-script", job.name, job.namespace, uid=job.uid)]
    jobs, pod = own_jobs(session, session.inspector), PodTrace(0, "train-0", "n0")
    for absent in ((), ((1, "Failed"),)):
        report = HangReport("train", (pod,), (), absent=absent)
        session.inspector.report = session.inspector.reports[job.key] = report
        await jobs.inspect(job.key)
        assert (tmp_path / "a4" / "hangs").exists() is bool(absent)
    (written,) = (tmp_path / "a4" / "hangs" / "unasked").iterdir()
    assert session.inspector.reports[job.key].bundle == str(written)


async def test_the_alarms_of_a_job_see_for_whom_its_ranks_wait_as_any_console_found(
    tmp_path: Path, server: ApiServer
) -> None:
    async with opened(server, tmp_path, kinds=["jobsets"]) as session:
        server.put(JOBSETS, named("train", "default"))
        await eventually(lambda: session.fleet.jobsets)
        (job,) = session.fleet.jobsets.values()
        assert session.alarms._sources.diagnosis(job.uid) is None
        found = Diagnosis(job.uid, DiagnosisKind.HANG, time.time(), "Rank 9 is stopped", nodes=("n1",))
        async with opened(server, tmp_path, kinds=[]) as other:
            await other.diagnoses.record(found)
        await session.diagnoses.refresh()
        assert session.alarms._sources.diagnosis(job.uid) == found
        assert session.alarms._sources.diagnosis("another") is None


async def test_only_what_is_asked_for_is_watched(tmp_path: Path, server: ApiServer) -> None:
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        assert set((await session.wait_until_listed()).links) == {"pods"}
        assert not server.asked(NODES)


async def test_of_a_kind_only_what_selectors_name_is_asked_for_once_they_are_known(tmp_path: Path) -> None:
    held, jobs = {"fieldSelector": "spec.nodeName!="}, {"labelSelector": "a in (b)"}
    async with ApiServer() as server:
        server.put(PODS, named("a"))
        async with opened(server, tmp_path, kinds=["nodes", "pods"], only={"nodes": held, "pods": None}) as session:
            await session.wait_until_listed(*session.watch.started_kinds)
            assert server.asked(NODES, **held)
            assert not server.asked(PODS)
            await session.watch.set_selector("pods", jobs)
            assert session.fleet.pods
            assert server.asked(PODS, **jobs, watch="")
            await eventually(lambda: server.asked(PODS, **jobs, watch="1"))


async def test_pictures_follow_the_cluster(tmp_path: Path, server: ApiServer) -> None:
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        await session.wait_until_listed("pods")
        server.put(PODS, named("a"))
        async for fleet in session.watch.snapshots():
            if fleet.pods:
                break
        server.remove(PODS, "a")
        await eventually(lambda: not session.fleet.pods)


async def test_a_server_that_is_down_at_the_start(tmp_path: Path) -> None:
    server = ApiServer()
    async with server:
        pass
    async with opened(server, tmp_path, kinds=["pods", "workloads"]) as session:
        await eventually(lambda: state(session, "pods") is WatchState.STALE)
        link = session.fleet.links["pods"]
        assert "nothing answers there (connection refused)" in link.why
        assert link.hint
        with pytest.raises(Unreachable, match="connection refused"):
            await session.wait_until_listed()
        server.put(PODS, named("a"))
        async with server:
            await eventually(lambda: session.fleet.pods and state(session, "workloads") is WatchState.LIVE, 20)
            assert session.fleet.links["pods"].why == ""


@pytest.mark.slow(reason="waits until the session has come back")
async def test_a_server_that_is_killed_and_comes_back(tmp_path: Path, server: ApiServer) -> None:
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        server.put(PODS, named("a"))
        await eventually(lambda: session.fleet.pods)
        await server.stop()
        await eventually(lambda: state(session, "pods") is WatchState.STALE)
        assert list(session.fleet.pods) == [("default", "a")]
        server.put(PODS, named("b"))
        server.remove(PODS, "a")
        await server.start()
        await eventually(lambda: list(session.fleet.pods) == [("default", "b")], 20)
        assert state(session, "pods") is WatchState.LIVE
        assert len(server.asked(PODS, limit="500")) == 1


async def test_a_kind_that_may_not_be_listed_leaves_the_rest(tmp_path: Path, server: ApiServer) -> None:
    server.refuse[NODES] = forbidden("nodes")
    async with opened(server, tmp_path, kinds=["nodes", "pods"]) as session:
        fleet = await session.wait_until_listed()
        link = fleet.links["nodes"]
        assert (link.state, link.hint) == (WatchState.FORBIDDEN, "Ask for `list nodes`.")
        assert fleet.links["pods"].state is WatchState.LIVE


async def test_a_cluster_without_kueue_and_jobset(tmp_path: Path, server: ApiServer) -> None:
    server.groups.clear()
    async with opened(server, tmp_path) as session:
        links = (await session.wait_until_listed()).links
        assert (links["workloads"].state, links["jobsets"].state) == (WatchState.ABSENT, WatchState.ABSENT)
        assert "JobSet is not installed" in links["jobsets"].why
        assert links["pods"].state is WatchState.LIVE


async def test_a_refused_token_is_reported(tmp_path: Path, server: ApiServer) -> None:
    server.tokens = {"another"}
    path = server.kubeconfig(tmp_path, token="hunter2")
    session = await Session.open(Settings(kubeconfig=path), kinds=["pods"])
    try:
        with pytest.raises(NotLoggedIn) as caught:
            await session.wait_until_listed()
        assert "hunter2" not in f"{caught.value} {session.fleet.links} {session.watch.__dict__}"
    finally:
        await session.close()


async def test_objects_that_cannot_be_read_are_counted(tmp_path: Path, server: ApiServer) -> None:
    server.put(PODS, named("good"))
    server.put(PODS, named("bad", status={"phase": []}))
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        fleet = await session.wait_until_listed()
        assert list(fleet.pods) == [("default", "good")]
        assert "1 of them cannot be read, the first default/bad" in fleet.links["pods"].why


async def test_a_list_that_takes_too_long(tmp_path: Path) -> None:
    async def waits(request: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError("never")

    async with ApiServer() as server:
        server.handlers[PODS] = waits
        async with opened(server, tmp_path, kinds=["pods"]) as session:
            with pytest.raises(Unreachable, match=rf"list pods: the API server {server.url}.* still lists"):
                await session.watch.wait_until_listed("pods", "pods", timeout=0.2)
            with pytest.raises(Unreachable, match=r"it listed nothing for 0\.2 s"):
                await session.watch.wait_until_listed(silent=0.2)
        async with opened(server, tmp_path, kinds=["pods", "nodes"]) as session:
            with pytest.raises(Unreachable, match=r"list pods: .* after 0\.4 s it still lists"):
                await session.watch.wait_until_listed(timeout=0.4, silent=0.2)


@pytest.mark.slow(reason="a credential plugin runs longer than a silent list is waited for")
async def test_while_a_credential_plugin_runs_no_list_is_missed(tmp_path: Path) -> None:
    os.mkfifo(go_on := tmp_path / "go-on")
    answer = json.dumps({"apiVersion": EXEC, "kind": "ExecCredential", "status": {"token": "t"}})
    script = f"read _ < {go_on}; echo '{answer}'"
    async with ApiServer(secure=True) as server:
        path = server.kubeconfig(
            tmp_path, exec={"apiVersion": EXEC, "command": "sh", "args": ["-c", script], "interactiveMode": "Never"}
        )
        session = await Session.open(Settings(kubeconfig=path), kinds=["pods"])
        try:
            waiting = asyncio.create_task(session.watch.wait_until_listed(silent=1.0))
            await eventually(lambda: session.watch.current_connection.client.login.unanswered_error(1.5))
            assert not waiting.done()
            await asyncio.to_thread(go_on.write_text, "\n")
            assert (await waiting).links["pods"].state is WatchState.LIVE
        finally:
            await session.close()


async def test_another_context_and_namespace(tmp_path: Path, server: ApiServer) -> None:
    server.put(PODS, named("a"))
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        await session.wait_until_listed()
        assert (session.context, session.namespace) == ("test", "default")
        await session.watch.switch_context(context="other")
        assert (session.context, session.namespace) == ("other", "team-b")
        assert list((await session.wait_until_listed()).pods) == [("default", "a")]
        assert [each.name for each in session.watch.contexts() if each.current] == ["other"]
        with pytest.raises(BadKubeconfig):
            await session.watch.switch_context(context="nowhere")
        assert session.context == "other"
        server.put(PODS, named("b"))
        await eventually(lambda: len(session.fleet.pods) == 2)


async def test_a_namespace_to_which_the_account_is_confined(tmp_path: Path, server: ApiServer) -> None:
    server.refuse[PODS] = forbidden("pods")
    for namespace in ("default", "team"):
        server.put(f"/api/v1/namespaces/{namespace}/pods", named(f"in-{namespace}", namespace))
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        assert list((await session.wait_until_listed()).pods) == [("default", "in-default")]
        assert session.fleet.links["pods"].why.startswith("only namespace default")
        await session.watch.switch_context(namespace="team")
        await eventually(lambda: list(session.fleet.pods) == [("team", "in-team")])


@pytest.mark.parametrize("problem", ["missing", "broken", "context"])
async def test_a_kubeconfig_that_cannot_be_used(tmp_path: Path, problem: str, server: ApiServer) -> None:
    settings = Settings(kubeconfig=server.kubeconfig(tmp_path))
    if problem == "missing":
        settings = settings._replace(kubeconfig=tmp_path / "nowhere")
    if problem == "broken":
        (tmp_path / "kubeconfig").write_text("clusters: [")
    if problem == "context":
        settings = settings._replace(context="nowhere")
    with pytest.raises(BadKubeconfig) as caught:
        await Session.open(settings)
    assert caught.value.exit_code == 2


async def test_pictures_end_with_the_session(tmp_path: Path, server: ApiServer) -> None:
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        async for _ in session.watch.snapshots():
            await session.close()
        with pytest.raises(Unreachable):
            await session.watch.manifest("pods", "default", "a")


# things done


async def test_rights_are_asked_once(tmp_path: Path) -> None:
    asked: list[Any] = []

    async def review(request: web.Request) -> web.StreamResponse:
        attributes = (await request.json())["spec"]["resourceAttributes"]
        asked.append(attributes)
        return web.json_response({"status": {"allowed": attributes["verb"] == "get"}}, status=201)

    async with ApiServer() as server, opened(server, tmp_path, kinds=[]) as session:
        server.handlers["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = review
        assert await session.watch.is_allowed("get", "pods", subresource="exec", namespace="n")
        assert await session.watch.is_allowed("get", "pods", subresource="exec", namespace="n")
        assert not await session.watch.is_allowed("delete", "jobsets", group="jobset.x-k8s.io")
        assert asked == [
            {"verb": "get", "resource": "pods", "namespace": "n", "subresource": "exec"},
            {"verb": "delete", "resource": "jobsets", "group": "jobset.x-k8s.io"},
        ]


@asynccontextmanager
async def recording(server: ApiServer, *paths: str) -> AsyncIterator[list[tuple[str, str, Any]]]:
    """What is asked of these paths besides reading."""
    done: list[tuple[str, str, Any]] = []

    async def record(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        done.append((request.method, request.path, json.loads(body) if body else None))
        return web.json_response({})

    for path in paths:
        server.handlers[path] = record
    yield done


def cordoned(unschedulable: bool | None, reason: str | None) -> dict[str, Any]:
    annotations = {"a4.console/cordon-reason": reason}
    return {"metadata": {"annotations": annotations}, "spec": {"unschedulable": unschedulable}}


async def test_cordon_and_delete(tmp_path: Path) -> None:
    pod = "/api/v1/namespaces/default/pods/a"
    async with (
        ApiServer() as server,
        opened(server, tmp_path, kinds=[]) as session,
        recording(server, "/api/v1/nodes/n1", pod) as done,
    ):
        await session.watch.cordon("n1", reason="rank 9 is slow")
        await session.watch.cordon("n1", is_cordoned=False)
        await session.watch.delete_pod("default", "a")
        assert done == [
            ("PATCH", "/api/v1/nodes/n1", cordoned(True, "rank 9 is slow")),
            ("PATCH", "/api/v1/nodes/n1", cordoned(None, None)),
            ("DELETE", pod, None),
        ]
        assert server.asked("/api/v1/nodes/n1")[0].headers["Content-Type"] == "application/merge-patch+json"


async def test_stopping_a_jobset_that_no_release_made(tmp_path: Path) -> None:
    done: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.method == "DELETE":
            done.append(await request.json())
        return web.json_response(named("train"))

    async with ApiServer() as server, opened(server, tmp_path, kinds=[]) as session:
        server.handlers[MINE] = answer
        report = await session.launch.stop("default", "train")
        assert (report.release, report.deleted) == ("", ("JobSet train",))
        assert [each["propagationPolicy"] for each in done] == ["Foreground"]


async def test_read_only_changes_nothing(tmp_path: Path, server: ApiServer) -> None:
    async with opened(server, tmp_path, kinds=[], read_only=True) as session:
        server.requests.clear()
        for change in (
            session.watch.cordon("n"),
            session.watch.delete_pod("n", "p"),
            session.launch.stop("n", "j"),
            session.watch.exec("n", "p", ["rm"], on_output=print),
            session.watch.shell("n", "p"),
        ):
            with pytest.raises(NotAllowed, match="read-only"):
                await change
        assert not [each for each in server.requests if each.path != "/version"]


async def test_manifests_hide_what_is_secret(tmp_path: Path) -> None:
    noise = {"managedFields": [{"manager": "kubectl"}]}
    secret = {
        "kind": "Secret",
        "metadata": {
            "name": "s",
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2"},
            **noise,
        },
        "data": {"password": "aHVudGVyMg=="},
        "stringData": {"other": "hunter2"},
    }
    pod = {"kind": "Pod", "metadata": {"name": "a", **noise}, "spec": {"nodeName": "n🚀"}}

    async with ApiServer() as server, opened(server, tmp_path, kinds=[]) as session:
        for path, thing in (("secrets/s", secret), ("pods/a", pod)):

            async def answer(request: web.Request, thing: Any = thing) -> web.StreamResponse:
                return web.json_response(thing)

            server.handlers[f"/api/v1/namespaces/default/{path}"] = answer
        text = await session.watch.manifest("Secret", "default", "s")
        assert "password: (hidden)" in text
        assert "hunter2" not in text
        assert "aHVudGVyMg" not in text
        for word in ("pods", "Pod", "POD"):
            text = await session.watch.manifest(word, "default", "a")
            assert "n🚀" in text
            assert "managedFields" not in text


# the table of a benchmark


def rank(name: str, uid: str, phase: str, index: int = 0) -> dict[str, Any]:
    labels = {
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/jobset-uid": "js",
        "jobset.sigs.k8s.io/replicatedjob-name": "workload",
        "jobset.sigs.k8s.io/job-index": "0",
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    state = {"running": {}} if phase == "Running" else {"terminated": {"exitCode": 0}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels},
        "spec": {"nodeName": "n", "containers": [{"name": "workload"}]},
        "status": {"phase": phase, "containerStatuses": [{"name": "workload", "state": state}]},
    }


def train(**status: Any) -> dict[str, Any]:
    spec = {"replicatedJobs": [{"name": "workload", "template": {"spec": {"parallelism": 2}}}]}
    return {"metadata": {"name": "train", "namespace": "default", "uid": "js"}, "spec": spec, "status": status}


@pytest.mark.slow(reason="waits until the session has come back")
async def test_the_table_grows_with_the_log_and_ends_with_the_jobset(tmp_path: Path) -> None:
    recording = (LOGS / "nccl_all_gather.txt").read_bytes().splitlines()

    async def log(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"".join(b"2026-11-21T07:00:00.000000001Z " + line + b"\n" for line in recording))

    async with ApiServer() as server:
        pod = rank("train-0", "p0", "Succeeded")
        server.put(JOBSETS, train())
        server.put(PODS, rank("train-1", "p1", "Running", 1))
        server.put(PODS, pod)
        server.handlers["/api/v1/namespaces/default/pods/train-0/log"] = log

        async def describe(request: web.Request) -> web.StreamResponse:
            return web.json_response(pod)

        server.handlers["/api/v1/namespaces/default/pods/train-0"] = describe
        async with opened(server, tmp_path, kinds=["pods", "jobsets"]) as session:
            rows: list[int] = []
            ended = False

            async def read() -> None:
                nonlocal ended
                async with (
                    session.measures.open_job("default", "train") as job,
                    aclosing(job.follow_changes()) as changes,
                ):
                    async for now in changes:
                        rows.extend(len(each.test.rows) for each in now.tests[:1])
                        ended = any(each.test.finished for each in now.tests)

            reading = asyncio.create_task(read())
            await eventually(lambda: ended)
            assert rows == sorted(rows)
            assert rows[-1] > 3
            assert not reading.done()
            server.put(JOBSETS, train(terminalState="Completed"))
            await asyncio.wait_for(reading, 60)
            kept = await session.measures.test_history.load()
            assert [each.test.finished for each in kept if each.job == "train"] == [True]


async def test_there_is_no_table_of_what_is_not_there(tmp_path: Path, server: ApiServer) -> None:
    async with (
        opened(server, tmp_path, kinds=["pods", "jobsets"]) as session,
        session.measures.open_job("default", "nothing") as job,
    ):
        assert [now.tests async for now in job.follow_changes() if now.is_over] == [()]


async def test_a_part_that_cannot_be_closed_keeps_no_other_open(tmp_path: Path) -> None:
    closed: list[str] = []

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        async def close(self) -> None:
            closed.append(self.name)
            if self.name == "alarms" and closed.count("alarms") == 1:
                raise OSError("disk full")

    async with ApiServer() as server, opened(server, tmp_path, kinds=[]) as session:
        vars(session).update({name: Part(name) for name in ("alarms", "logs", "launch")})
        with pytest.raises(OSError, match="disk full"):
            await session.close()
        assert closed == ["alarms", "logs", "launch"]
        with pytest.raises(Unreachable, match="closed"):
            _ = session.watch.current_connection


async def test_a_page_may_draw_its_title_once_more_after_the_session_is_closed(
    tmp_path: Path, server: ApiServer
) -> None:
    async with opened(server, tmp_path, kinds=["pods"]) as session:
        assert not session.watch.unverified
    assert not session.watch.unverified
