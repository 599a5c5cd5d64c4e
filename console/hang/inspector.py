"""Inspects a job: runs the hang probe in all its pods, a few at a time, and copies py-spy into pods without it."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from console.attach.fan_out import PYTHON_FROM_INPUT, Exec, PodAnswers, run_and_collect, run_in_pods
from console.decoding import decode_apart
from console.errors import BadInput, ConsoleError, NotFound, ProgramFailed, Refused
from console.folders import check_new_file, write_new_file
from console.kube.find_job import find_job
from console.kube.stream_completeness import SERVER_CLOCK
from console.metrics.diagnosis import diagnose_hang, diagnose_slow_ranks
from console.scheduling.pod_slots import PodSlot, pod_slots
from rankscope import (
    ANALYSER_SCRIPT,
    HALTED_STATES,
    MAX_ASKED_SECONDS,
    MAX_PROCESSES,
    MIN_POLLS,
    MIN_STEPS,
    Answers,
    Desync,
    HangReport,
    PodAnswer,
    RankDump,
    RasAnswer,
    RasPolls,
    RasReport,
    SlowReport,
    TorchAnalysis,
    TracedProcess,
    add_locations,
    add_samples,
    add_times,
    build_question,
    choose_sampled,
    describe_dumps,
    find_slow_ranks,
    judge_processes,
    list_dumps,
    list_named_by_nccl,
    list_processes,
    list_spared,
    locate_late_rank,
    parse_answer,
    parse_or_explain,
    parse_polls,
    parse_ras,
    poll_ras,
    probe,
    rank_by_process,
    read_answer,
    read_samples,
    read_times,
    refuse_foreign_ranks,
    seconds_to_sample,
)

if TYPE_CHECKING:
    from console.kube.objects.pod import Pod
    from console.kube.watched_cluster import WatchedCluster
    from console.metrics.diagnosis import Diagnosis


def own_py_spy() -> bytes:
    """This machine's py-spy binary, if it runs on A4 machines; else empty."""
    found = shutil.which("py-spy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None or platform.system() != "Linux" or platform.machine() != "x86_64":
        return b""
    program = Path(found).read_bytes()
    return program if program.startswith(b"\x7fELF") else b""


PROBE_TIMEOUT = 90.0  # seconds after which a pod is given up
INSTALL_TIMEOUT = 300.0  # seconds for `pip install py-spy`
RAS_TRIES = 3  # pods whose NCCL is asked, one after the other, until one answers: it answers for the whole job
RAS_TIMEOUT = 45.0  # seconds for NCCL's answer, which waits itself for ranks that do not answer
ANALYSER_TIMEOUT = 90.0  # seconds; the script itself gives up each interpreter after 60
RAS_PAUSE = 1.0  # seconds after which NCCL is asked again about ranks that it found behind
POD_END_TIMEOUT = 3.0  # seconds within which the cluster tells that a pod has ended whose command broke off
ANSWER_FLOW_SECONDS = 6.0  # from the first byte of the probe's answer to its last: it is printed at once, at the end
PODS_ANSWER, RAS_ANSWER = "What the pods tell", "What the pod tells of NCCL"
MAX_REPORTS = 16  # jobs whose last report is kept: those that were inspected last
MAX_RECORDING_BYTES = 64 << 20  # bytes of a recording
_PROBE_SCRIPT, _POLL_RAS_SCRIPT = Path(probe.__file__), Path(poll_ras.__file__)
PY_SPY_VERSION = "0.4.3"
PY_SPY_HASHES = (
    "8a4277225f470d394a85cca0cdd944bef87f0097b6f20150a6dd3ac2e92806b8",
    "bbcec46930d464b3bfc142d6d02ade4dd8ad5627823263b3eff0280e80c7c132",
)
"""SHA-256 of py-spy's wheels for x86-64 and 64-bit Arm, as in uv.lock: pip installs no other, whatever its index."""
_INSTALL_PY_SPY = (
    "p=$(command -v python3 || command -v python) || exit 44; "
    f"printf '%s\\n' 'py-spy=={PY_SPY_VERSION} {' '.join(f'--hash=sha256:{each}' for each in PY_SPY_HASHES)}' "
    '| "$p" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes '
    "-r /dev/stdin"
)
# Beside its name until it is whole and runs.
_COPY_PY_SPY = (
    'for to in /usr/local/bin "$HOME/.local/bin"; do mkdir -p "$to" 2>/dev/null && [ -w "$to" ] && break; done; '
    'head -c "$1" > "$to/.py-spy.a4" && [ "$(wc -c < "$to/.py-spy.a4")" -eq "$1" ] && chmod 755 "$to/.py-spy.a4" '
    '&& "$to/.py-spy.a4" --version && mv "$to/.py-spy.a4" "$to/py-spy" || { rm -f "$to/.py-spy.a4"; exit 1; }'
)
# Idle threads too: one that hangs is idle.
_RECORD_PROFILE = (
    'f=$(mktemp /tmp/a4-flame.XXXXXX) && "$1" record --output "$f" --format "$4" --idle --duration "$2" '
    '--pid "$3" >&2 && cat "$f"; code=$?; rm -f "$f"; exit $code'
)
_FACT_SCRIPTS = {
    "status": 'cat "$1/status"',
    "limits": 'cat "$1/limits"',
    "fd": 'ls -l "$1/fd"',
    "maps": 'cat "$1/maps"',
    "strace": 'command -v strace >/dev/null || { echo "strace is not in this image" >&2; exit 44; }; '
    'timeout 10 strace -f -tt -p "$2" 2>&1; :',
}


class JobInspector:
    def __init__(
        self,
        cluster: WatchedCluster,
        run_command: Exec | None = None,
        store: Callable[[Diagnosis], Awaitable[None]] | None = None,
    ) -> None:
        """`run_command`: runs a command in a pod, by default the cluster's exec; `store`: records a diagnosis."""
        self._cluster, self._store_diagnosis = cluster, store
        self._run = run_command or self._exec_in_pod
        self.reports: dict[tuple[str, str], HangReport] = {}  # the last report of each job
        self.slow_reports: dict[tuple[str, str], SlowReport] = {}
        self._inspection_locks: dict[tuple[str, str], asyncio.Lock] = {}  # one look at a time at a job

    def on_context_changed(self) -> None:
        self.reports.clear()
        self._inspection_locks.clear()
        self.slow_reports = {}  # what is still measured there goes into the old one

    async def _exec_in_pod(
        self, pod: Pod, argv: Sequence[str], stdin: bytes, accept: Callable[[int, bytes], None]
    ) -> int:
        from console.kube import exec as executing

        client = self._cluster.connection_for_change(f"inspect pod {pod.name}").client
        container = pod.main.name if pod.main else ""
        doing = f"look at the processes of pod {pod.name}"
        return await executing.run(
            client, pod.namespace, pod.name, argv, accept, container=container, stdin=stdin, action=doing
        )

    async def inspect_job(
        self,
        namespace: str,
        name: str,
        *,
        all_stacks: bool = False,
        reads_recorder: bool = True,
        on_answer: Callable[[int, int], None] = lambda *_: None,
    ) -> HangReport:
        """Inspect every process of a job, or wait for a running inspection; `on_answer` gets (answered pods, all pods).

        py-spy, which halts a process for a moment, dumps only ranks that the others wait for according to the flight
        recorder or NCCL; all ranks if neither names any or their stacks do not explain the wait, or with `all_stacks`.
        Without `reads_recorder` no flight recorder is dumped; the first dump halts a rank for about two seconds.

        Raises NotFound without running pods, NotAllowed in read-only mode, Refused if every pod refuses. A failure in
        one pod is in the report.
        """
        asked = SERVER_CLOCK.now()
        async with self._inspection_locks.setdefault((namespace, name), asyncio.Lock()):
            last = self.reports.get((namespace, name))
            return (
                last
                if last is not None and last.at > asked and not (all_stacks and last.spared)
                else await self._inspect_pods(namespace, name, all_stacks, reads_recorder, on_answer)
            )

    async def _inspect_pods(
        self, namespace: str, name: str, all_stacks: bool, reads_recorder: bool, on_answer: Callable[[int, int], None]
    ) -> HangReport:
        every = self.running_ranks(namespace, name)
        self._cluster.connection_for_change(f"inspect {name}")
        probe, done = await asyncio.to_thread(_PROBE_SCRIPT.read_bytes), 0

        def count_pod(_: PodSlot) -> None:
            nonlocal done
            done += 1
            on_answer(done, len(every))

        argv = (
            ["sh", "-c", PYTHON_FROM_INPUT, "sh", str(len(probe))]
            + ["all-stacks"] * all_stacks
            + ["no-recorder"] * (not reads_recorder)
        )
        outputs = await run_in_pods(
            self._run, every, argv, probe, PROBE_TIMEOUT, flow=ANSWER_FLOW_SECONDS, on_answer=count_pod
        )
        answers: Answers[PodSlot] = await decode_apart(
            PODS_ANSWER,
            lambda: refuse_foreign_ranks([(rank, parse_or_explain(outputs.texts[rank.number])) for rank in every]),
        )
        refusals = [each for each in outputs.by_pod.values() if isinstance(each, Refused)]
        if len(refusals) == len(every):
            raise refusals[0]
        able = [rank for rank, answer in answers if isinstance(answer, PodAnswer)]
        ras, problem = await self._query_ras(able[:RAS_TRIES])
        _, processes = await decode_apart(PODS_ANSWER, partial(list_processes, answers))
        ras = ras.with_job_ranks(rank_by_process(processes, every, ras))
        answers = await self._add_suspect_stacks(answers, processes, ras)
        pods, processes = await decode_apart(PODS_ANSWER, partial(list_processes, answers))
        absent = self._absent_pods(namespace, name, every)
        pid_or_none = (None,) if ras.covers_all(len(processes)) else ()
        nodes = {(each.rank, pid): each.node for each in processes if each.node for pid in (each.pid, *pid_or_none)}
        dumps = list_dumps(answers)
        found = await decode_apart(PODS_ANSWER, partial(judge_processes, dumps, processes))
        report = HangReport(
            name,
            tuple(pods),
            tuple(processes),
            ras.with_node_names(nodes),
            problem,
            SERVER_CLOCK.now(),
            absent,
            found,
            describe_dumps(dumps)
            if dumps
            else "no rank can be asked for it; PyTorch can where a job was launched with `diagnosis`"
            if reads_recorder
            else "not asked, which would halt ranks of a job that may be another person's",
            tuple(dumps),
            describe_transports(outputs, len(able), len(every)),
        )
        self.reports.pop((namespace, name), None)
        self.reports[namespace, name] = report
        for old in list(self.reports)[:-MAX_REPORTS]:
            del self.reports[old]
        if self._store_diagnosis is not None:
            await self._store_diagnosis(diagnose_hang(report, _jobset_uid(every)))
        return report

    async def add_torch_analysis(self, namespace: str, name: str, report: HangReport) -> HangReport:
        """The report with the findings of PyTorch's own flight recorder analyser; unchanged if no group is complete.

        The analyser runs in the pod of a rank that gave a dump, if possible one that no rank waits for. Importing
        PyTorch there takes seconds, so the analysis follows the verdict.
        """
        able = {dump.rank for dump in report.dumps if dump.history}
        suspects = {each.pod for group in report.suspects for each in group.members}
        pods = [each.pod for each in report.processes if each.rank in able]
        wanted = next((pod for pod in pods if pod not in suspects), pods[0] if pods else "")
        pod = self._cluster.fleet.pods.get((namespace, wanted))
        if pod is None or pod.phase != "Running":
            return report
        analysed = replace(report, analysis=await ask_torch_analyser(self._run, pod, report.dumps))
        if self.reports.get((namespace, name)) is report:
            self.reports[namespace, name] = analysed
        return analysed

    async def _add_suspect_stacks(
        self, answers: Answers[PodSlot], processes: Sequence[TracedProcess], ras: RasReport
    ) -> Answers[PodSlot]:
        """The answers with the suspects' stacks, and with those of all ranks if the suspects explain too little."""
        spared = list_spared(answers)
        if not spared:
            return answers
        found = await decode_apart(PODS_ANSWER, partial(judge_processes, list_dumps(answers), processes))
        recorded = found is not None and found.kind is not Desync.NETWORK
        named = set(found.ranks) if found is not None and recorded else list_named_by_nccl(processes, ras)
        if named:
            answers = await self._add_stacks(answers, named & spared)
            _, whole = await decode_apart(PODS_ANSWER, partial(list_processes, answers))
            suspects = [each for each in whole if each.rank in named]
            if not recorded:
                enough = any(
                    each.where.doing.explains_wait or each.pid is None or each.state in HALTED_STATES
                    for each in suspects
                )
            else:
                # Who seems to have skipped a collective may itself wait for somebody in what is not recorded.
                waits = any(each.where.doing.waits_for_ranks for each in suspects)
                again = await decode_apart(PODS_ANSWER, partial(judge_processes, list_dumps(answers), whole))
                enough = again == found and not (found is not None and found.kind is Desync.MISSED and waits)
            if enough:
                return answers
        return await self._add_stacks(answers, list_spared(answers))

    async def _add_stacks(self, answers: Answers[PodSlot], ranks: set[int]) -> Answers[PodSlot]:
        wanted = [
            rank
            for rank, answer in answers
            if isinstance(answer, PodAnswer) and any(each.rank in ranks for each in answer.processes)
        ]
        if not wanted:
            return answers
        probe = await asyncio.to_thread(_PROBE_SCRIPT.read_bytes)
        numbers = ",".join(map(str, sorted(ranks)))
        argv = ("sh", "-c", PYTHON_FROM_INPUT, "sh", str(len(probe)), "stacks", numbers)
        outputs = await run_in_pods(self._run, wanted, argv, probe, PROBE_TIMEOUT, flow=ANSWER_FLOW_SECONDS)
        return await decode_apart(
            PODS_ANSWER,
            lambda: [
                (rank, answer.add_stacks(parse_or_explain(outputs.texts[rank.number]), ranks))
                if isinstance(answer, PodAnswer) and rank.number in outputs.by_pod
                else (rank, answer)
                for rank, answer in answers
            ],
        )

    async def find_slow_ranks(
        self,
        namespace: str,
        name: str,
        seconds: float,
        *,
        reads_recorder: bool = False,
        max_seconds: float = MAX_ASKED_SECONDS,
        only_nccl: bool = False,
    ) -> SlowReport:
        """The ranks that the others wait for, by NCCL RAS in one pod, since NCCL of any rank answers for all ranks.

        NCCL is polled for `seconds`, and for up to `max_seconds` if the job makes too few steps for a verdict. With
        `reads_recorder` all ranks then dump their flight recorders, which show GPUs and links; the first dump pauses
        them for seconds. Then py-spy samples the slow ranks and one other. `only_nccl`: an automatic check, which does
        not replace a stored report with slow ranks. Raises NotFound, NotAllowed and the errors of commands in pods.
        """
        every, reports = self.running_ranks(namespace, name), self.slow_reports
        read = await self._poll_nccl(namespace, name, every, seconds, max_seconds)
        report = add_locations(
            await decode_apart(RAS_ANSWER, partial(find_slow_ranks, read)), lambda late: locate_late_rank(late, every)
        )
        if reads_recorder:
            report = await self._add_times(report, every, argv=("times", f"{seconds:g}"))
        report = await self._add_samples(report, every, seconds_to_sample(report, seconds))
        report, known = replace(report, job=name, at=SERVER_CLOCK.now()), reports.get((namespace, name))
        if not (only_nccl and known is not None and known.slow):  # which was measured, and is more than what NCCL tells
            reports[namespace, name] = report
        if self._store_diagnosis is not None:
            for found in diagnose_slow_ranks(report, _jobset_uid(every)):
                await self._store_diagnosis(found)
        return report

    async def _poll_nccl(
        self, namespace: str, name: str, all_ranks: Sequence[PodSlot], seconds: float, max_seconds: float
    ) -> RasPolls:
        self._cluster.connection_for_change(f"ask NCCL in {name}")
        script = await asyncio.to_thread(_POLL_RAS_SCRIPT.read_bytes)
        words = (str(len(script)), f"{seconds:g}", f"{max_seconds:g}", str(MIN_STEPS), str(MIN_POLLS))
        # Pods that do not run count too; and a pod may have more processes than GPUs.
        pods = pod_slots(find_job(self._cluster.fleet, namespace, name), self._cluster.fleet)
        most_ranks = sum(max(rank.gpus, MAX_PROCESSES) for rank in pods)
        for rank in all_ranks[:RAS_TRIES]:
            assert rank.pod is not None
            try:
                output = await run_and_collect(
                    self._run,
                    rank.pod,
                    ("sh", "-c", PYTHON_FROM_INPUT, "sh", *words),
                    script,
                    max(seconds, max_seconds) + PROBE_TIMEOUT,
                    flow=ANSWER_FLOW_SECONDS,
                )
                read = await decode_apart(RAS_ANSWER, partial(parse_polls, output, most_ranks))
            except ConsoleError as error:
                if ended := await self._describe_job_end(namespace, name, rank):
                    raise NotFound(f"{name} ended while it was measured: {ended}.", f"a4 why {name}") from error
                if not isinstance(error, ProgramFailed):
                    raise
                raise ProgramFailed(f"Asking NCCL in {rank.name} failed: {error.message}.", code=error.code) from error
            if read.polls:
                break
        return read

    async def _add_times(self, report: SlowReport, all_ranks: Sequence[PodSlot], argv: Sequence[str]) -> SlowReport:
        probe = await asyncio.to_thread(_PROBE_SCRIPT.read_bytes)
        whole = ("sh", "-c", PYTHON_FROM_INPUT, "sh", str(len(probe)), *argv)
        outputs = await run_in_pods(self._run, all_ranks, whole, probe, PROBE_TIMEOUT, flow=ANSWER_FLOW_SECONDS)
        addresses = {rank.pod.ip: rank.number for rank in all_ranks if rank.pod is not None}
        times = await decode_apart("What the pods tell of times", partial(read_times, outputs.texts, addresses))
        return add_times(report, times, {rank.number: rank.node for rank in all_ranks})

    async def _add_samples(self, report: SlowReport, all_ranks: Sequence[PodSlot], seconds: float) -> SlowReport:
        numbers = choose_sampled(report, all_ranks)
        if not numbers:
            return report
        probe = await asyncio.to_thread(_PROBE_SCRIPT.read_bytes)
        argv = (
            "sh",
            "-c",
            PYTHON_FROM_INPUT,
            "sh",
            str(len(probe)),
            "samples",
            f"{seconds:g}",
            ",".join(map(str, numbers)),
        )
        wanted = [rank for rank in all_ranks if any(number // rank.gpus == rank.number for number in numbers)]
        outputs = await run_in_pods(self._run, wanted, argv, probe, seconds + PROBE_TIMEOUT, flow=ANSWER_FLOW_SECONDS)
        return await decode_apart(
            "What py-spy told in the pods", lambda: add_samples(report, *read_samples(outputs.texts))
        )

    def running_ranks(self, namespace: str, name: str) -> list[PodSlot]:
        """The ranks of a job whose pods run. Raises NotFound if there are none."""
        fleet = self._cluster.fleet
        found = find_job(fleet, namespace, name)
        every = [slot for slot in pod_slots(found, fleet) if slot.pod and slot.phase == "Running"]
        if not every:
            raise NotFound(
                f"No pod of {name} runs ({found.state}): there is nothing to inspect.", f"a4 why {name} says why."
            )
        return every

    async def _describe_job_end(self, namespace: str, name: str, slot: PodSlot) -> str:
        """The end of the job in words, if reported within POD_END_TIMEOUT seconds; empty if it still runs."""
        assert slot.pod is not None
        until = time.monotonic() + POD_END_TIMEOUT
        while True:
            fleet = self._cluster.fleet
            jobset, pod = fleet.jobsets.get((namespace, name)), fleet.pods.get((namespace, slot.pod.name))
            if jobset is None or jobset.deletion_asked_at:
                return "it was deleted"
            if pod is None or pod.uid != slot.pod.uid or pod.phase != "Running" or pod.deletion_asked_at:
                return f"it {jobset.state}" if jobset.finished else f"pod {slot.number} does not run any more"
            if time.monotonic() >= until:
                return ""
            await asyncio.sleep(POD_END_TIMEOUT / 20)

    def _absent_pods(self, namespace: str, name: str, running_pods: Sequence[PodSlot]) -> tuple[tuple[int, str], ...]:
        """(pod index, status) of pods that do not run although others of their replicated job do."""
        fleet, parts = self._cluster.fleet, {rank.replicated_job for rank in running_pods}
        every = pod_slots(found, fleet) if (found := fleet.jobsets.get((namespace, name))) else ()
        absent = (rank for rank in every if rank.replicated_job in parts and rank.phase != "Running")
        return tuple((rank.number, rank.status) for rank in absent)

    async def _query_ras(self, all_ranks: Sequence[PodSlot]) -> tuple[RasReport, str]:
        """The RAS report of the first of these pods whose NCCL answers, and the reason if none does (else empty)."""
        problem = ""
        for rank in all_ranks:
            first, why = await self._ask_ras(rank)
            if first is not None:
                if not first.behind:
                    return first, ""
                # A moment later who is behind by chance has moved on.
                await asyncio.sleep(RAS_PAUSE)
                again, _ = await self._ask_ras(rank)
                return again.compare_with(first) if again is not None else first, ""
            problem = problem or why
        return RasReport(), f"NCCL RAS does not answer ({problem})" if problem else "NCCL RAS does not answer"

    async def _ask_ras(self, slot: PodSlot) -> tuple[RasReport | None, str]:
        """NCCL's RAS report from a pod, or None and the reason."""
        assert slot.pod is not None
        probe = await asyncio.to_thread(_PROBE_SCRIPT.read_bytes)
        argv = ("sh", "-c", PYTHON_FROM_INPUT, "sh", str(len(probe)), "ras-only")

        def decode(output: bytes) -> tuple[RasReport | None, str]:
            answer = parse_answer(output).ras or RasAnswer()
            return (parse_ras(answer.text), "") if answer.text else (None, answer.why)

        try:
            output = await run_and_collect(self._run, slot.pod, argv, probe, RAS_TIMEOUT, flow=ANSWER_FLOW_SECONDS)
            return await decode_apart(RAS_ANSWER, partial(decode, output))
        except ConsoleError as error:
            return None, error.message.rstrip(".")

    # what changes or takes long

    async def install_py_spy(self, namespace: str, name: str, pods: Sequence[str]) -> dict[str, str]:
        """Install py-spy in these pods of job `name`, by copy or pip; by pod name the error message, "" on success."""
        self._cluster.connection_for_change(f"install py-spy in {name}")
        wanted = [rank for rank in self.running_ranks(namespace, name) if rank.name in pods]
        program = await asyncio.to_thread(own_py_spy)
        argv = ("sh", "-c", _COPY_PY_SPY, "sh", str(len(program))) if program else ("sh", "-c", _INSTALL_PY_SPY)
        outputs = await run_in_pods(self._run, wanted, argv, program, INSTALL_TIMEOUT)
        beside = "" if program else "; and this machine's py-spy runs on no A4"
        return {
            rank.name: f"{found.message}{beside}" if isinstance(found, ConsoleError) else ""
            for rank in wanted
            for found in (outputs.by_pod[rank.number],)
        }

    async def record_profile(
        self, namespace: str, name: str, process: TracedProcess, py_spy: str, seconds: float, path: Path
    ) -> int:
        """Record a process with py-spy into a local file: a flame graph (SVG), or speedscope JSON for a .json path.

        Returns its size in bytes; an incomplete recording is not written. Raises NotFound without the process, BadInput
        if it is no Python or the file cannot be written or exists, ProgramFailed if py-spy fails.
        """
        form = "speedscope" if path.suffix.lower() == ".json" else "flamegraph"
        await asyncio.to_thread(check_new_file, path)
        if process.pid is None:
            raise NotFound(f"Rank {process.rank} of {name} has no process to record.")
        if process.program:
            raise BadInput(
                f"Rank {process.rank} of {name} is {process.program}, not a Python process: py-spy cannot record it.",
                "What the kernel says of it: --proc status, or P in the Hang tab.",
            )
        pod = next((rank.pod for rank in self.running_ranks(namespace, name) if rank.name == process.pod), None)
        if pod is None:
            raise NotFound(f"Pod {process.pod} no longer runs.")
        argv = ("sh", "-c", _RECORD_PROFILE, "sh", py_spy or "py-spy", f"{seconds:g}", str(process.pid), form)
        try:
            recorded = await run_and_collect(
                self._run, pod, argv, b"", seconds + PROBE_TIMEOUT, max_bytes=MAX_RECORDING_BYTES
            )
        except ProgramFailed as error:
            raise ProgramFailed(
                f"py-spy could not record rank {process.rank}: {error.message}.", code=error.code
            ) from error
        if not recorded.rstrip().endswith(b"</svg>" if form == "flamegraph" else b"}"):
            raise ProgramFailed(f"The recording of rank {process.rank} is incomplete.", "Try again.")
        await asyncio.to_thread(write_new_file, path, recorded)
        return len(recorded)

    async def read_process_fact(self, namespace: str, name: str, process: TracedProcess, fact_name: str) -> str:
        """The content of a /proc file (a name of FACTS), or ten seconds of strace. Raises NotFound if it is gone."""
        pod = next((rank.pod for rank in self.running_ranks(namespace, name) if rank.name == process.pod), None)
        if pod is None or process.pid is None:
            raise NotFound(f"Rank {process.rank} of {name} has no process.")
        script = _FACT_SCRIPTS[fact_name].replace('"$1', '"${A4_PROC:-/proc}/$1')
        argv = ("sh", "-c", script, "sh", str(process.pid), str(process.pid))
        output = await run_and_collect(self._run, pod, argv, b"", PROBE_TIMEOUT)
        return output.decode(errors="replace")


def _jobset_uid(all_ranks: Sequence[PodSlot]) -> str:
    """The uid of the JobSet that has these pods; empty if it has none yet."""
    return next((rank.pod.jobset_uid for rank in all_ranks if rank.pod is not None), "")


async def ask_torch_analyser(run: Exec, pod: Pod, dumps: Sequence[RankDump]) -> TorchAnalysis | None:
    """Run PyTorch's analyser in a pod; None if no group is complete. A failure is part of the answer."""
    asked, groups = await decode_apart("What the pods tell", lambda: build_question(dumps))
    if not groups:
        return None
    script = await asyncio.to_thread(ANALYSER_SCRIPT.read_bytes)
    length = str(len(script))
    argv = ("sh", "-c", PYTHON_FROM_INPUT, "sh", length, length, str(len(script) + len(asked)))
    try:
        answer = await run_and_collect(run, pod, argv, script + script + asked, ANALYSER_TIMEOUT)
        return await decode_apart("What the pod tells of PyTorch's analyser", lambda: read_answer(answer, groups))
    except ConsoleError as error:
        return TorchAnalysis(why=error.message.rstrip("."), asked=len(groups))


def describe_transports(answers: PodAnswers, answered_pods: int, all_pods: int) -> str:
    """The number of pods that answered, and their transport in words (ssh from one pod, or a stream each)."""
    words = f"{answered_pods:,} of {all_pods:,} answered"
    if answers.gateway is not None:
        return f"{words}, {answers.gateway_answers:,} of them through pod {answers.gateway} (ssh)"
    return f"{words}, each in a stream of its own ({answers.gateway_error})" if answers.gateway_error else words
