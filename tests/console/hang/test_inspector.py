"""The inspection of hung jobs: real processes looked into by the real py-spy, and recordings of four H200."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec import structs

from console.errors import BadInput, NotAllowed, NotFound, ProgramFailed
from console.hang import inspector
from console.hang.inspector import MAX_REPORTS, PY_SPY_HASHES, PY_SPY_VERSION, JobInspector
from console.kube.objects.pod import Pod
from console.metrics.diagnosis import Diagnosis, DiagnosisKind
from rankscope import Activity, TracedProcess
from tests.fakes import FakeConnection, fleet_of
from tests.screens.scene import jobset, rank

HUNG = Path(__file__).parent / "hung" / "train.py"
H200 = Path(__file__).parents[2] / "fixtures" / "h200"
WORLD, STUCK, A_POD = 4, 2, 2
JOB = jobset("hung", WORLD // A_POD)
ADVICE = "workers (fewer of them, preprocessed data)"


class Cluster:
    """A watched cluster of which only the picture matters."""

    def __init__(self, *others: str, read_only: bool = False) -> None:
        self.read_only, self.current_connection = read_only, FakeConnection()
        pods = [rank(JOB, number, f"node-{number}") for number in range(JOB.ranks)]
        self.fleet = fleet_of(JOB, *pods, *(jobset(each, 1) for each in others))

    def connection_for_change(self, action: str) -> None:
        if self.read_only:
            raise NotAllowed(f"Could not {action}: the console is in read-only mode.")


def _trained(argv: list[str], env: dict[str, str]) -> subprocess.Popen[str]:
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(argv, env=env, text=True, start_new_session=True, stdout=pipe, stderr=nothing)


def _sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


FORBIDDEN = (
    "py-spy may not look into processes here: run the tests as root, or in a container that has SYS_PTRACE "
    "(docker run --cap-add SYS_PTRACE), or set kernel.yama.ptrace_scope to 0."
)


@contextmanager
def hung_processes(folder: Path) -> Iterator[dict[str, str]]:
    """A training of four processes in two "pods" that hangs at step 2; where each pod's /proc is, by the pod's name."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        port = door.getsockname()[1]
    begun: list[subprocess.Popen[str]] = []
    places: dict[str, str] = {}
    try:
        for number in range(WORLD):
            env = {
                **os.environ, "RANK": str(number), "LOCAL_RANK": str(number % A_POD), "WORLD_SIZE": str(WORLD),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "STUCK": str(STUCK),
            }  # fmt: skip
            begun.append(_trained([sys.executable, "-u", str(HUNG)], env))
        for process in begun:
            assert process.stdout is not None
            assert "begins step 2" in process.stdout.readline()
        while not all(_sleeps(process.pid) for process in begun):
            pass  # it is on its way to where it waits
        for number in range(WORLD // A_POD):
            proc = folder / f"proc-{number}"
            proc.mkdir()
            for process in begun[number * A_POD : (number + 1) * A_POD]:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                for pid in (str(process.pid), *children):
                    (proc / pid).symlink_to(f"/proc/{pid}")
            places[f"hung-workload-0-{number}-x7k{number}"] = str(proc)
        yield places
    finally:
        for process in begun:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def locally(places: dict[str, str]) -> Any:
    """Runs what is meant for a pod on this machine, where the pod's processes are."""

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        process = await asyncio.create_subprocess_exec(
            *argv, env={"PATH": path, "A4_PROC": places[pod.name], "A4_RDMA": "/nowhere", "HOME": "/nowhere"},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, errors = await process.communicate(stdin)
        take(1, said)
        take(2, errors)
        return process.returncode or 0

    return run


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def probe_of(cluster: Cluster, run: Any) -> JobInspector:
    return JobInspector(cast("Any", cluster), run)


@pytest.mark.slow(reason="starts programs of its own")
async def test_a_real_hang_names_the_right_rank(tmp_path: Path) -> None:
    with hung_processes(tmp_path) as places:
        looking = probe_of(Cluster(), locally(places))
        report = await looking.inspect_job("default", "hung")
        if any("SYS_PTRACE" in process.problem for process in report.processes):
            pytest.fail(FORBIDDEN)
        assert [process.rank for process in report.processes] == [0, 1, 2, 3], report.verdict
        (suspect,) = report.suspects
        assert (suspect.doing, suspect.ranks) == (Activity.DATA, (STUCK,))
        assert report.summary == "3 in all_reduce, 1 in data loader (rank 2, pod 1, GPU 0, node-1)"
        assert report.verdict[0].startswith("Rank 2 (pod 1, GPU 0) on node-1 is in the data loader (train_step, ")
        assert report.verdict[0].endswith(" while 3 others wait in all_reduce.")
        assert ADVICE in report.advice[0]
        stuck = suspect.members[0]
        assert (stuck.pod_rank, stuck.local_rank, stuck.state) == (1, 0, "S")
        assert stuck.threads == 1
        assert all(pod.py_spy and pod.reached is False for pod in report.pods), "rank 0 accepts no more connections"
        assert "Name:\tpython" in await looking.read_process_fact("default", "hung", stuck, "status")
        svg, speedscope = tmp_path / "flame.svg", tmp_path / "flame.json"
        size, _ = await asyncio.gather(
            looking.record_profile("default", "hung", stuck, report.pods[1].py_spy, 1, svg),
            looking.record_profile("default", "hung", report.processes[0], report.pods[0].py_spy, 1, speedscope),
        )
        assert "speedscope" in json.loads(speedscope.read_text())["$schema"]
        text = svg.read_text()
        assert len(text.encode()) == size
        assert text.rstrip().endswith("</svg>")
        assert svg.stat().st_mode & 0o077 == 0
        with pytest.raises(BadInput, match="already exists"):
            await looking.record_profile("default", "hung", stuck, "", 1, svg)
        assert [name for name in names(tmp_path) if "flame" in name] == ["flame.json", "flame.svg"]


@contextmanager
def nccl_processes(folder: Path) -> Iterator[tuple[dict[str, str], list[subprocess.Popen[str]]]]:
    """An NCCL test of four ranks in two "pods", as mpirun and orted start them; where each pod's /proc is."""
    begun: list[subprocess.Popen[str]] = []
    places: dict[str, str] = {}

    def begin(proc: Path, argv0: str, **env: int) -> None:
        variables = {**os.environ, **{name: str(value) for name, value in env.items()}}
        pipe = subprocess.PIPE
        begun.append(subprocess.Popen([argv0, "-c", "read x"], executable="/bin/sh", env=variables, text=True,
                                      stdin=pipe, start_new_session=True))  # fmt: skip
        (proc / str(begun[-1].pid)).symlink_to(f"/proc/{begun[-1].pid}")

    try:
        for number in range(WORLD // A_POD):
            proc = folder / f"proc-{number}"
            proc.mkdir()
            (proc / "uptime").symlink_to("/proc/uptime")
            begin(proc, "/usr/bin/orted" if number else "mpirun")
            for local in range(A_POD):
                rank = number * A_POD + local
                begin(proc, "./build/all_reduce_perf", OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_LOCAL_RANK=local)
            places[f"hung-workload-0-{number}-x7k{number}"] = str(proc)
        while not all(_sleeps(process.pid) for process in begun):
            pass  # it has become the program whose name it bears
        yield places, begun
    finally:
        for process in begun:
            process.kill()
            process.wait()
            assert process.stdin is not None
            process.stdin.close()


@pytest.mark.slow(reason="starts programs of its own")
async def test_an_nccl_test_is_reported_by_the_kernel_since_it_is_no_python(tmp_path: Path) -> None:
    with nccl_processes(tmp_path) as (places, begun):
        looking = probe_of(Cluster(), locally(places))
        report = await looking.inspect_job("default", "hung")
        assert [(each.rank, each.pod_rank, each.program) for each in report.processes] == [
            (at, at // A_POD, "all_reduce_perf") for at in range(WORLD)
        ]
        assert {(each.state, each.threads, each.cpu is not None) for each in report.processes} == {("S", 1, True)}
        assert [[each.program for each in pod.launchers] for pod in report.pods] == [["mpirun"], ["orted"]]
        assert (report.alarming, report.suspects, report.without_py_spy) == (False, (), ())
        assert report.summary == "4 all_reduce_perf"
        assert report.short.startswith("An NCCL test, no training: 4 all_reduce_perf processes in 2 pods; py-spy")
        assert any("RAS" in each for each in report.advice)
        assert any("gdb" in each for each in report.advice)
        assert "State:\tS" in await looking.read_process_fact("default", "hung", report.processes[0], "status")
        with pytest.raises(BadInput, match="is all_reduce_perf, not a Python process"):
            await looking.record_profile("default", "hung", report.processes[0], "py-spy", 1, tmp_path / "flame.svg")
        (tmp_path / "proc-1" / str(begun[-1].pid)).unlink()
        report = await looking.inspect_job("default", "hung")
        assert report.short == "Rank 3 (pod 1, GPU 1) has no process any more while 3 others run all_reduce_perf."
        assert report.alarming


@pytest.mark.slow(reason="starts programs of its own")
async def test_who_has_a_recorder_that_names_nobody_is_asked_for_its_stack_after_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", str(tmp_path / "recorder"))
    with hung_processes(tmp_path) as places:
        run, asked = locally(places), list[list[str]]()

        async def follow(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
            asked.append(list(argv[5:]))
            said = list[bytes]()
            code = await run(pod, argv, stdin, lambda stream, data: said.append(data) if stream == 1 else None)
            if not argv[5:]:
                assert json.loads(b"".join(said))["recorder"]
                assert all(not each["asked"] and "dump" not in each for each in json.loads(b"".join(said))["processes"])
            take(1, b"".join(said))
            return int(code)

        looking = probe_of(Cluster(), follow)
        report = await looking.inspect_job("default", "hung")
        assert [group.ranks for group in report.suspects] == [(STUCK,)]
        assert report.spared == ()
        assert asked.count([]) == asked.count(["stacks", "0,1,2,3"]) == WORLD // A_POD
        asked.clear()
        whole = await looking.inspect_job("default", "hung", all_stacks=True)
        assert whole.short == report.short
        assert asked.count(["all-stacks"]) == WORLD // A_POD
        assert not any("stacks" in each for each in asked)
        asked.clear()
        spared = await looking.inspect_job("default", "hung", reads_recorder=False)
        assert asked.count(["no-recorder"]) == WORLD // A_POD
        assert (spared.dumps, [group.ranks for group in spared.suspects]) == ((), [(STUCK,)])
        assert spared.recorder_words == "not asked, which would halt ranks of a job that may be another person's"


def answer(*local: int, py_spy: str = "/usr/bin/py-spy", error: str = "") -> bytes:
    dump = "" if error else 'Process 7: python train.py\n\nThread 7 (active): "MainThread"\n    step (train.py:1)\n'
    processes = [{"pid": 7 + each, "local_rank": each, "dump": dump, "error": error} for each in local]
    return json.dumps(
        {"processes": processes, "py_spy": py_spy, "rdma": [{"name": "mlx5_0", "state": "DOWN"}]}
    ).encode()


def saying(*answers: bytes | Exception) -> Any:
    """Pods that answer so, by their number."""

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        said = answers[pod.completion_index]
        if isinstance(said, Exception):
            raise said
        take(1, b"a banner of the shell\n" + said)
        return 0

    return run


def status(*behind: tuple[int, int]) -> bytes:
    """What NCCL says of four ranks of which some have launched so many operations only."""
    rows = [
        f"  Rank {rank} has launched up to operation {count} -- GPU 0 managed by process {7 + rank % 2} on node ::1"
        for rank, count in behind
    ]
    words = ["NCCL version 2.28.9 compiled with CUDA 13.0", f" 0 1 2 2 4 4 RUNNING {'MISMATCH' if rows else 'OK'}"]
    different = ["  Communicator ranks have different AllReduce operation counts",
                 "  3 ranks have launched up to operation 40"]  # fmt: skip
    text = "\n".join([*words, *(different + rows if rows else [])])
    return json.dumps({"processes": [], "ras": {"text": text}}).encode()


@pytest.mark.parametrize(
    ("looks", "blamed"),
    [
        ([status((2, 39)), status((2, 39))], (2,)), ([status((2, 39)), status((1, 49))], ()),
        ([status((2, 39)), status((2, 41))], ()), ([status((2, 39)), status()], ()), ([status()], ()),
        ([status((2, 39)), ProgramFailed("it is gone")], ()),
    ],
    ids=["stays", "another", "moves", "well", "one look", "no second look"],
)  # fmt: skip
async def test_nccl_is_asked_again_about_who_is_behind(
    looks: list[bytes | Exception], blamed: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.hang.inspector.RAS_PAUSE", 0)
    processes = [{"pid": 7 + each, "local_rank": each, "program": "all_reduce_perf"} for each in range(A_POD)]
    left = list(looks)

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        said: dict[str, Any] = {"processes": processes if argv[-1] != "ras-only" else []}
        if argv[-1] == "ras-only":
            look = left.pop(0)
            if isinstance(look, Exception):
                raise look
            said["ras"] = json.loads(look)["ras"]
        take(1, json.dumps(said).encode())
        return 0

    report = await probe_of(Cluster(), run).inspect_job("default", "hung")
    assert left == []
    assert [rank for group in report.suspects for rank in group.ranks] == list(blamed)
    assert report.alarming == bool(blamed)
    assert report.ras.words, "what NCCL says is told in any case"
    if blamed:
        assert report.verdict[0].startswith("Rank 2 (pod 1, GPU 0) on node-1 stays behind")
        assert report.verdict[1] == ("NCCL says MISMATCH: rank 2 on node-1 has launched 39 AllReduce, the others 40.")


LOADER = "next_batch (/data/loader.py:7)", "train_step (train.py:9)"
REDUCE = "all_reduce (torch/distributed/distributed_c10d.py:2810)", "train_step (train.py:12)"
FORWARD = "forward (model.py:3)", "train_step (train.py:10)"


def pods_in_which_a_rank_is_behind(calls: tuple[str, ...], halted: list[set[int]], late: int = 2) -> Any:
    """Four ranks, of which py-spy halts those that are added; the late one is at these calls, the others reduce."""

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        await asyncio.sleep(0)
        mine = {A_POD * pod.completion_index + each for each in range(A_POD)}
        if argv[-1] == "ras-only":
            take(1, status((late, 39)))
            return 0
        wanted = {int(each) for each in argv[-1].split(",")} & mine if argv[-2] == "stacks" else set[int]()
        wanted = mine if argv[-1] == "all-stacks" else wanted
        halted.append(wanted)
        processes = []
        for number in sorted(mine):
            frames = "".join(f"    {each}\n" for each in (calls if number == late else REDUCE))
            dump = f'Process {7 + number % 2}: python train.py\n\nThread 7 (active): "MainThread"\n{frames}'
            known = {"pid": 7 + number % 2, "rank": number, "local_rank": number % 2, "asked": number in wanted}
            processes.append(known | {"dump": dump if number in wanted else ""})
        take(1, json.dumps({"processes": processes, "py_spy": "/usr/bin/py-spy"}).encode())
        return 0

    return run


@pytest.mark.parametrize(
    ("calls", "all_asked"), [(LOADER, False), (REDUCE, True), (FORWARD, True)], ids=["loader", "reduce", "forward"]
)
async def test_py_spy_looks_only_at_the_rank_that_nccl_names_if_its_stack_explains_it(
    calls: tuple[str, ...], all_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.hang.inspector.RAS_PAUSE", 0)
    halted: list[set[int]] = []
    probe = probe_of(Cluster(), pods_in_which_a_rank_is_behind(calls, halted))
    report = await probe.inspect_job("default", "hung")
    assert set().union(*halted) == ({0, 1, 2, 3} if all_asked else {2})
    assert report.spared == (() if all_asked else (0, 1, 3))
    assert [rank for group in report.suspects for rank in group.ranks] == [2]
    assert report.without_py_spy == ()
    if not all_asked:
        assert report.short == "Rank 2 (pod 1, GPU 0) is in the data loader while 3 others wait."
        assert report.summary == "3 not asked for a stack, 1 in data loader (rank 2, pod 1, GPU 0, node-1)"
        others = {each.problem for each in report.processes if each.rank != 2}
        assert others == {"Its stack was not asked for: it waits, too, and for other ranks."}


async def test_pods_of_one_address_whose_processes_have_the_same_pids_are_distinguished_by_their_ranks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("console.hang.inspector.RAS_PAUSE", 0)
    cluster = Cluster()
    cluster.fleet = fleet_of(JOB, *(structs.replace(rank(JOB, at, f"node-{at}"), ip="::1") for at in range(2)))
    report = await probe_of(cluster, pods_in_which_a_rank_is_behind(LOADER, [], 1)).inspect_job("default", "hung")
    assert ([each.rank for each in report.ras.odd], report.spared) == ([1], (0, 2, 3))


async def test_who_asks_for_all_stacks_during_a_look_that_spares_some_gets_a_look_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("console.hang.inspector.RAS_PAUSE", 0)
    probe = probe_of(Cluster(), pods_in_which_a_rank_is_behind(LOADER, []))
    first, whole, same = await asyncio.gather(
        probe.inspect_job("default", "hung"),
        probe.inspect_job("default", "hung", all_stacks=True),
        probe.inspect_job("default", "hung"),
    )
    assert (first.spared, whole.spared) == ((0, 1, 3), ())
    assert same is whole


async def test_a_process_that_is_gone_is_named_first() -> None:
    report = await probe_of(Cluster(), saying(answer(0, 1), answer(1))).inspect_job("default", "hung")
    assert [each.rank for each in report.processes if each.pid is None] == [2]
    assert report.pods[0].rdma == (("mlx5_0", "DOWN"),)
    assert report.ras_problem.startswith("NCCL RAS does not answer")


async def test_a_pod_all_of_whose_processes_are_gone_is_named_first() -> None:
    report = await probe_of(Cluster(), saying(answer(0, 1), answer())).inspect_job("default", "hung")
    assert [(each.rank, each.pod_rank) for each in report.processes if each.pid is None] == [(2, 1), (3, 1)]
    assert report.short == "Ranks 2-3 (pod 1) have no process any more while 2 others are in step."


async def test_who_asks_during_a_look_gets_the_answer_of_that_look() -> None:
    begun: list[str] = []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        if argv[-1] != "ras-only":
            begun.append(pod.name)
        await asyncio.sleep(0)
        take(1, answer(0, 1))
        return 0

    probe = probe_of(Cluster(), run)
    first, second = await asyncio.gather(probe.inspect_job("default", "hung"), probe.inspect_job("default", "hung"))
    assert second is first
    alone = len(begun)
    assert await probe.inspect_job("default", "hung") is not first
    assert len(begun) == 2 * alone


async def test_reports_are_kept_of_the_jobs_that_were_inspected_last() -> None:
    probe = probe_of(Cluster(), saying(answer(0, 1), answer(1)))
    report = await probe.inspect_job("default", "hung")
    probe.reports.update({("default", f"job-{number}"): report for number in range(MAX_REPORTS)})
    await probe.inspect_job("default", "hung")
    assert [name for _, name in probe.reports] == [*(f"job-{number}" for number in range(1, MAX_REPORTS)), "hung"]


async def test_a_stopped_process_is_reported_as_such() -> None:
    error = "Error: Failed to get stack traces\n1: unexpected waitpid result PtraceEvent(Pid(5), SIGSTOP, 128) to 5"
    stopped = {"pid": 5, "local_rank": 1, "state": "T", "dump": "Process 5: python -u train.py\n", "error": error}
    said = json.loads(answer(0))
    said["processes"].append(stopped)
    report = await probe_of(Cluster(), saying(answer(0, 1), json.dumps(said).encode())).inspect_job("default", "hung")
    assert "kill -CONT 5" in report.processes[3].problem
    assert report.short == "Rank 3 (pod 1, GPU 1) is stopped while 3 others are in step."


async def test_what_pip_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = tmp_path / "python3"
    pip.write_text("#!/bin/sh\necho 'ERROR: No matching distribution found for py-spy' >&2\nexit 1\n")
    pip.chmod(0o755)
    monkeypatch.setattr("platform.machine", lambda: "aarch64")

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        process = await asyncio.create_subprocess_exec(
            *argv, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        said, errors = await process.communicate()
        take(1, said)
        take(2, errors)
        return process.returncode or 0

    (why,) = (await probe_of(Cluster(), run).install_py_spy("default", "hung", ["hung-workload-0-1-x7k1"])).values()
    assert why == "ERROR: No matching distribution found for py-spy; and this machine's py-spy runs on no A4"


def test_pip_takes_no_other_py_spy_than_the_one_that_is_locked() -> None:
    locked = (Path(__file__).parents[3] / "uv.lock").read_text()
    assert all(f'hash = "sha256:{each}"' in locked for each in PY_SPY_HASHES)
    assert f"py_spy-{PY_SPY_VERSION}-py2.py3-none-manylinux" in locked
    assert "--require-hashes" in inspector._INSTALL_PY_SPY
    assert all(f" --hash=sha256:{each}" in inspector._INSTALL_PY_SPY for each in PY_SPY_HASHES)


async def test_what_keeps_py_spy_from_looking_is_reported() -> None:
    refused = "Error: Permission Denied: Try running again with elevated permissions"
    report = await probe_of(
        Cluster(), saying(answer(0, 1, error=refused), answer(0, 1, py_spy="", error="x"))
    ).inspect_job("default", "hung")
    assert "SYS_PTRACE" in report.processes[0].problem
    assert report.processes[2].problem == "There is no py-spy in its pod."
    assert [pod.pod_rank for pod in report.without_py_spy] == [1]
    assert "py-spy is missing in 1 of 2 pods" in report.verdict[-1]


async def test_a_pod_that_cannot_be_asked_does_not_hide_the_others() -> None:
    report = await probe_of(
        Cluster(), saying(answer(0, 1), ProgramFailed("there is no Python in this image"))
    ).inspect_job("default", "hung")
    assert len(report.processes) == 2
    assert "Pod 1 could not be asked: there is no Python in this image." in report.verdict


async def test_a_pod_that_has_ended_is_whom_the_others_wait_for() -> None:
    cluster = Cluster()
    last = rank(JOB, 1, "node-1")
    cluster.fleet = fleet_of(JOB, rank(JOB, 0, "node-0"), structs.replace(last, phase="Succeeded", reason="Completed"))
    report = await probe_of(cluster, saying(answer(0, 1))).inspect_job("default", "hung")
    assert report.short == report.verdict[0]
    assert report.short.startswith("Pod 1 does not run (Completed): ranks that need it")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"phase": "Succeeded"}, "pod 0 does not run any more"),
        ({"deletion_asked_at": 7.0}, "pod 0 does not run any more"),
    ],
)
async def test_a_job_that_ends_while_its_slow_ranks_are_looked_for_is_reported_as_ended(
    change: dict[str, Any], said: str
) -> None:
    cluster = Cluster()

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        def end() -> None:  # the cluster tells it after the command has broken off
            cluster.fleet = fleet_of(JOB, structs.replace(pod, **change))

        asyncio.get_running_loop().call_later(0.05, end)
        return 129

    with pytest.raises(NotFound, match=f"^hung ended while it was measured: {said}"):
        await probe_of(cluster, run).find_slow_ranks("default", "hung", 10.0)


async def test_what_nccl_and_py_spy_tell_is_recorded_and_replaces_no_measured_report() -> None:
    at_line = "main (train.py:9);run_gc (hooks.py:5)"
    ranks: list[dict[str, Any]] = [
        {"rank": 3, "stacks": [[60, at_line], [140, "main (train.py:9)"]]},
        {"rank": 11, "stacks": [[200, "main (train.py:9)"]]},
    ]
    lines = ['{"version":"2.28.9","form":"json","ranks":4}', '{"process":[0,"10.0.0.1",7,1,3,[0]]}']
    for at in range(400):  # late after every launch, for a quarter of the time
        lines.append(json.dumps([at * 0.02, 0.001, at // 4 * 24, [[0, 4, [[0, 1]]]] if at % 4 == 0 else []]))
    asked: list[list[str]] = []
    kept: list[Diagnosis] = []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        asked.append(list(argv[5:]))
        sampled = json.dumps({"ranks": ranks}) if "samples" in argv else ""
        take(1, sampled.encode() or "\n".join([*lines, '{"over":"","active":[0]}', ""]).encode())
        return 0

    async def keep(found: Diagnosis) -> None:
        kept.append(found)

    looking = JobInspector(cast("Any", Cluster()), run, keep)
    report = await looking.find_slow_ranks("default", "hung", 10.0, only_nccl=True)
    assert asked[0] == ["10", "300", "8", "100"]
    assert {tuple(each) for each in asked[1:]} == {("samples", "5", "3,11")}, "no dump is taken"
    assert [each.rank for each in report.suspects] == [3]
    assert [(each.uid, each.kind, each.nodes) for each in kept] == [(JOB.uid, DiagnosisKind.LATE, ())]
    assert kept[0].words.endswith(" costs at most about 29 % of each step (host: python collector)")
    for each in ranks:
        each["stacks"] = [[200, "main (train.py:9)"]]
    await looking.find_slow_ranks("default", "hung", 10.0, only_nccl=True)
    assert kept[1].words == "", "one witness alone is for those who ask"
    report = looking.slow_reports["default", "hung"]
    key = "default", "hung"
    assert looking.slow_reports[key] is report
    slow = looking.slow_reports[key] = replace(report, late=(replace(report.late[0], slow=True, suspect=False),))
    await looking.find_slow_ranks("default", "hung", 10.0, only_nccl=True)
    assert looking.slow_reports[key] is slow


async def test_a_command_that_fails_in_a_pod_that_runs_on_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.hang.inspector.POD_END_TIMEOUT", 0.02)
    with pytest.raises(ProgramFailed, match=r"Asking NCCL in .* failed: no Python"):
        await probe_of(Cluster(), saying(ProgramFailed("no Python"))).find_slow_ranks("default", "hung", 10.0)


async def test_a_recording_that_breaks_off_leaves_no_file(tmp_path: Path) -> None:
    looking = probe_of(Cluster(), saying(b"<svg>half", answer(0)))
    process = TracedProcess(0, 0, "hung-workload-0-0-x7k0", "node-0", 7)
    with pytest.raises(ProgramFailed, match="is incomplete"):
        await looking.record_profile("default", "hung", process, "py-spy", 1, tmp_path / "flame.svg")
    whole = probe_of(Cluster(), saying(b"<svg></svg>", answer(0)))
    with pytest.raises(BadInput, match="cannot be written"):
        await whole.record_profile("default", "hung", process, "py-spy", 1, tmp_path / "nowhere" / "flame.svg")
    assert names(tmp_path) == []


async def test_this_machine_s_py_spy_is_copied(tmp_path: Path) -> None:
    """No index is asked, and what is copied runs there."""
    begun: list[int] = []

    async def run(pod: Pod, argv: Sequence[str], stdin: bytes, take: Callable[[int, bytes], None]) -> int:
        begun.append(len(stdin))
        script = argv[2].replace("/usr/local/bin", str(tmp_path))
        process = await asyncio.create_subprocess_exec(
            "sh", "-c", script, *argv[3:], env={"PATH": os.environ["PATH"], "HOME": "/nowhere"},
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        await process.communicate(stdin)
        return process.returncode or 0

    failed = await probe_of(Cluster(), run).install_py_spy("default", "hung", ["hung-workload-0-1-x7k1"])
    assert failed == {"hung-workload-0-1-x7k1": ""}
    assert len(begun) == 1
    assert names(tmp_path) == ["py-spy"]
    assert os.access(tmp_path / "py-spy", os.X_OK)


async def test_read_only_looks_into_nothing() -> None:
    with pytest.raises(NotAllowed, match="read-only"):
        await probe_of(Cluster(read_only=True), saying(answer(0), answer(0))).inspect_job("default", "hung")


async def test_a_job_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no job other"):
        await probe_of(Cluster(), saying()).inspect_job("default", "other")
