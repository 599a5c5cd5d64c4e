"""The inspection of a job whose rank hangs, its flame graph, and its GPUs from a DCGM exporter.

In the practice cluster the recipe hangs by itself; in the lab the same stand-ins are put beside each pod, and what is
run in it goes through the API server and its kubelet as anywhere.
"""

import asyncio
import random
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from console.connection_settings import Settings
from console.launch.run_record import RunRecord
from console.session import Session
from practice.node.fake_binaries import write_fake_binaries
from practice.node.proc_files import process_environment, write_proc_files
from practice.programs.hangs import HUNG_FACT
from practice.programs.launcher_stages import SCRIPT, TRAINS
from practice.programs.steps import ProgramContext, SharedFacts
from practice.scene.jobs import SceneJob, build_jobset
from rankscope import Activity, HangReport
from screens.app import ConsoleApp
from screens.columns.jobs import JobLine
from screens.columns.live_jobs import live_line
from screens.pages.job import JobScreen
from tests.apiserver import listening
from tests.console.hang.test_torch_analysis import dump
from tests.contract.client import MERGE_PATCH, Object
from tests.contract.cluster import CORE, JOBSETS, Cluster, eventually
from tests.contract.space import BLOCK, Space, container, public_folder
from tests.contract.watched_job import soon
from tests.screens.press import screen_text, text_of

NODES, STUCK = 2, 1
STEPS = 12  # before the training hangs: enough to know how regularly they come
VERDICT_SECONDS = 30.0
EXECS = "/apis/kwok.x-k8s.io/v1alpha1"
METRICS = "".join(
    f'{name}{{gpu="{gpu}",modelName="NVIDIA B200",namespace="NAMESPACE",pod="POD"}} {value}\n'
    for gpu in range(2)
    for name, value in (
        ("DCGM_FI_DEV_GPU_UTIL", 90 + gpu), ("DCGM_FI_DEV_GPU_TEMP", 60), ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", gpu),
        ("DCGM_FI_DEV_XID_ERRORS", 94 * gpu),
    )
)  # fmt: skip


@pytest.fixture
def folder() -> Iterator[Path]:
    with public_folder() as made:
        yield made


TRAINING, TEST = "own-script", "nccl-all-reduce"


async def hanging(space: Space, folder: Path, recipe: str = TRAINING, step: int = 2, pace: str = "0.1") -> list[Object]:
    """A training of two pods in which the second one is stuck in its data loader, or an NCCL test that stops; its pods.

    The training makes that step no more; of the test it is the second row that never comes.
    """
    await space.queue("q", 8 * NODES)
    fault = f"hang:{step}:{STUCK}" if recipe == TRAINING else "hang:1"
    job = SceneJob(
        "hung", recipe, 8 * NODES, "q", "medium", "you", namespace=space.name, topology=("preferred", BLOCK),
        env={"PRACTICE_FAULT": fault, "PRACTICE_PACE": pace}, notes={SCRIPT: TRAINS},
    )  # fmt: skip
    assert (await space.api.create(space.path(JOBSETS, "jobsets"), build_jobset(job))).status == 201
    pods = await space.pods("hung", NODES)
    if not space.cluster.programs:
        for number, pod in enumerate(pods):
            await _furnish(space, folder / str(number), pod, number, recipe)
    return pods


async def _furnish(space: Space, folder: Path, pod: Object, number: int, recipe: str) -> None:
    """Have what is run in that pod find the programs and processes of one that hangs."""
    given = _put(folder, pod, number, recipe)
    envs = [{"name": name, "value": value} for name, value in given.items()]
    name = pod["metadata"]["name"]
    local = {"workDir": str(folder), "envs": envs}
    body = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Exec", "metadata": {"name": name},
            "spec": {"execs": [{"local": local}]}}  # fmt: skip
    assert (await space.api.create(space.path(EXECS, "execs"), body)).status == 201
    await move(space, name, f"10.0.0.{number + 1}")  # as the imitation of NCCL names it


async def move(space: Space, pod: str, address: str) -> None:
    """Give a pod another address."""
    change = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    answer = await space.api.send("PATCH", f"{space.path(CORE, 'pods', pod)}/status", change, MERGE_PATCH)
    assert answer.status == 200, answer.body


def _put(folder: Path, pod: Object, number: int, recipe: str) -> dict[str, str]:
    """Write them, and give the environment by which they are found."""
    folder.mkdir()
    room = SharedFacts()
    room.post(HUNG_FACT, STUCK)
    env = {"JOB_COMPLETION_INDEX": str(number), "NNODES": str(NODES), "GPUS_PER_NODE": "8", "MASTER_ADDR": "master",
           "A4_RECIPE": recipe}  # fmt: skip
    place = ProgramContext([], env, pod, room, random.Random(1), lambda: 0.0)
    write_fake_binaries(folder, place)
    doing = "test" if recipe == TEST else "data" if number == STUCK else "nccl"
    write_proc_files(folder, place, doing)
    (folder / ".bin" / "doing").write_text(doing)
    (folder / ".bin" / "sick").write_text("")
    return {**process_environment(folder), "PATH": f"{folder}/.bin:/usr/local/bin:/usr/bin:/bin", "HOME": str(folder)}


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_rank_that_the_others_wait_for_is_named_and_recorded(
    session: Session, space: Space, folder: Path, tmp_path: Path
) -> None:
    await hanging(space, folder)
    report = await looked(session, space, lambda report: any(each.doing is Activity.DATA for each in report.suspects))
    (suspect,) = report.suspects
    assert (suspect.doing, suspect.ranks) == (Activity.DATA, (8 * STUCK + 1,))
    assert report.short == "Rank 9 (pod 1, GPU 1) is in the data loader while 15 others wait."
    assert report.spared == tuple(each for each in range(16) if each != 9)
    assert [pod.pod_rank for pod in report.pods if pod.reached] == [0, 1]
    assert {len(pod.rdma) for pod in report.pods} == {8}
    assert report.ras.words.startswith("NCCL says MISMATCH: rank 9 on ")
    svg = tmp_path / "flame.svg"
    size = await session.inspector.record_profile(
        space.name, "hung", suspect.members[0], report.pods[STUCK].py_spy, 1, svg
    )
    assert svg.stat().st_size == size > 100
    assert "State:\tS" in await session.inspector.read_process_fact(space.name, "hung", suspect.members[0], "status")


@pytest.mark.slow(reason="runs jobs on a whole cluster")
@pytest.mark.timeout(180)
@pytest.mark.parametrize("launched", [True, False])
async def test_the_header_of_a_job_of_ones_own_that_hangs_names_the_rank_within_30_s_of_its_last_step(
    cluster: Cluster, space: Space, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, launched: bool
) -> None:
    """Its label says that it is one's own; whether that account `launched` it the history knows."""
    if cluster.programs:  # the lab shows how long it takes with the usual settings
        (tmp_path / "a4").mkdir()
        (tmp_path / "a4" / "config.toml").write_text("[alarms]\nlate = 6\nstall = 20\n")
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    key = space.name, "hung"
    pods = await hanging(space, folder, step=STEPS + 1, pace="10")  # ten times as fast
    app = ConsoleApp(Settings(kubeconfig=cluster.kubeconfig, namespace=space.name))
    async with app.run_test(size=(140, 42)):
        await soon(lambda: key in app.fleet.jobsets and len(app.fleet.pods) == NODES, "the job is in the picture")
        if launched:
            server, uid = app.session.watch.server, app.fleet.jobsets[key].uid
            await app.session.launch.runs.history.add_run(
                RunRecord(TRAINING, "hung", space.name, server=server, uid=uid)
            )
        app.open_page("job", *key, "training")
        await soon(lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "its page")
        if not cluster.programs:
            for number in range(1, STEPS + 1):
                printed = [f"[rank0]: step {number}/97 | loss {4 - number / 100:.3f} | lr 1e-4"]
                await cluster.append_log(space.api, space.name, pods[0]["metadata"]["name"], "workload", printed)
                await asyncio.sleep(0.5)

        def line() -> JobLine:
            return live_line(app.session, app.fleet.jobsets[key], app.fleet)

        def header() -> str:
            return " ".join(text_of(app.screen.query_one("#explanation")).split())

        def made() -> int | None:
            followed = app.session.measures.find_followed(key)
            return followed.track.last.step if followed and followed.track and followed.track.last else None

        await soon(lambda: made() == STEPS and " left" in screen_text(app), "its last step, and the time left")
        last = monotonic()
        await soon(lambda: line().health.state == "late", "the next step is late")
        await soon(lambda: " left" not in screen_text(app), "no time left while it is late")
        if not launched:
            await soon(lambda: "not inspected: its label says that it is yours" in header(), "that it is not inspected")
            assert key not in app.session.inspector.reports
            assert app.session.watch.format_owner(app.fleet.jobsets[key].owner) == "you"
            await app.action_quit()
            return
        try:
            await soon(
                lambda: "Rank 9 (pod 1, GPU 1) is in the data loader while 15 others wait" in header(), "the verdict"
            )
        except AssertionError as error:
            error.add_note(f"{header()}\n{line().health}\n{app.session.inspector.reports.get(key)}")
            raise
        assert monotonic() - last < VERDICT_SECONDS, header()
        assert line().health.verdict == "Rank 9 (pod 1, GPU 1) is in the data loader while 15 others wait"
        assert " left" not in screen_text(app)
        await app.action_quit()


async def looked(session: Session, space: Space, enough: Callable[[HangReport], bool]) -> HangReport:
    """The inspection of the job, once all of its processes are there and that holds."""

    async def hung() -> HangReport | None:
        running = [pod for key, pod in session.fleet.pods.items() if key[0] == space.name and pod.phase == "Running"]
        if (space.name, "hung") not in session.fleet.jobsets or len(running) < NODES:
            return None
        report = await session.inspector.inspect_job(space.name, "hung")
        return report if len(report.processes) == 8 * NODES and enough(report) else None

    report = await eventually(hung, "somebody is found to hang", limit=60)
    assert report is not None
    return report


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_the_script_for_pytorchs_analyser_runs_in_a_pod(session: Session, space: Space, folder: Path) -> None:
    await hanging(space, folder, TEST)
    report = await looked(session, space, lambda report: bool(report.processes))
    every = tuple(dump(each, 8 - each) for each in range(2))
    told = await session.inspector.add_torch_analysis(space.name, "hung", replace(report, dumps=every))
    assert told.analysis is not None
    assert told.analysis.why == "no Python in the pod has PyTorch"


@pytest.mark.slow(reason="runs jobs on a whole cluster")
async def test_an_nccl_test_is_no_training_and_its_processes_are_found(
    session: Session, space: Space, folder: Path
) -> None:
    await hanging(space, folder, TEST)
    report = await looked(session, space, lambda report: not report.ras.is_healthy)
    assert {each.program for each in report.processes} == {"all_reduce_perf"}
    assert [(each.rank, each.pod_rank) for each in report.processes] == [(at, at // 8) for at in range(8 * NODES)]
    assert {(each.state, each.wchan, each.threads, each.cpu) for each in report.processes} == {("R", "", 11, 100.0)}
    assert [[(each.program, each.wchan) for each in pod.launchers] for pod in report.pods] == [
        [("mpirun", "do_sys_poll")], [("orted", "do_sys_poll")],
    ]  # fmt: skip
    assert (report.alarming, report.without_py_spy) == (True, ())
    (suspect,) = report.suspects
    assert (suspect.ranks, suspect.behind) == ((8 * STUCK + 1,), True)
    assert report.short == "Rank 9 (pod 1, GPU 1) stays behind in NCCL while 15 others run all_reduce_perf."
    pod = report.pods[STUCK]
    assert report.verdict[0].startswith(f"Rank 9 (pod 1, GPU 1) on {pod.node} stays behind in NCCL ")
    assert report.verdict[1].startswith(f"NCCL says MISMATCH: rank 9 on {pod.node} has launched 4,116 ")
    assert "its image has no gdb" in report.advice[1]


@asynccontextmanager
async def exporter(text: str) -> AsyncIterator[int]:
    """An HTTP server of this machine that tells those metrics; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = (await reader.readuntil(b"\r\n\r\n")).split()[1]
        body = text.encode() if asked == b"/metrics" else b""
        status = b"200 OK" if body else b"404 Not Found"
        writer.write(b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body))
        await writer.drain()
        writer.close()

    async with listening(serve, "0.0.0.0") as port:  # the API server asks at the address of the pod
        yield port


def own_address() -> str:
    """This machine's, but not of its loopback: the API server refuses to proxy there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))
        return str(probe.getsockname()[0])


async def _listen(space: Space, pod: str, port: int) -> None:
    """Have the port of that pod be the one of this machine."""
    if not space.cluster.programs:
        await move(space, pod, own_address())
        return
    change: Object = {"metadata": {"annotations": {f"a4-lab/port-{port}": str(port)}}}
    answer = await space.api.send("PATCH", space.path(CORE, "pods", pod), change, MERGE_PATCH)
    assert answer.status == 200, answer.body


async def test_gpus_are_read_from_the_exporter_of_their_node(cluster: Cluster, space: Space) -> None:
    queue = await space.queue("q", 8)
    await space.jobset("train", queue, 1)
    (pod,) = await space.pods("train", 1)
    text = METRICS.replace("NAMESPACE", space.name).replace("POD", pod["metadata"]["name"])
    async with exporter(text) as port:
        ports = [{"name": "metrics", "containerPort": port}]
        spec = {"containers": [{**container("exporter"), "ports": ports}], "nodeName": pod["spec"]["nodeName"],
                "tolerations": [{"operator": "Exists"}]}  # fmt: skip
        await space.pod("dcgm-exporter-x7k", **spec)
        await _listen(space, "dcgm-exporter-x7k", port)
        looking = Settings(kubeconfig=cluster.kubeconfig, namespace=space.name, read_only=True)
        opened = await Session.open(looking, kinds=("jobsets", "jobs", "pods", "nodes"))
        try:
            await opened.wait_until_listed()
            assert opened.gpus.exporter_of(space.name, "train") == "dcgm-exporter-x7k"
            (rank,) = (await opened.gpus.read_once(space.name, "train")).ranks
            assert (rank.source, rank.problem, [gpu.utilization for gpu in rank.gpus]) == ("dcgm", "", [90.0, 91.0])
            assert rank.gpus[1].faults == ("1 uncorrected ECC errors", "Xid 94")
        finally:
            await opened.close()
        reading = Settings(kubeconfig=cluster.reader_kubeconfig, namespace=space.name)
        reader = await Session.open(reading, kinds=("jobsets", "jobs", "pods"))
        try:
            await reader.wait_until_listed()
            (rank,) = (await reader.gpus.read_once(space.name, "train", source="dcgm")).ranks
            assert rank.gpus == ()
            assert "pods/proxy" in rank.problem or "not allowed" in rank.problem.lower(), rank.problem
        finally:
            await reader.close()
