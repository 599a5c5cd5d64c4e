"""What is fuzzed: each target reads bytes from outside; a new one is a row of `TARGETS`.

A target returns when it has read its input, or raises an error of ours (`ConsoleError`), which is how bad input is
told. Anything else is a defect.
"""

import asyncio
import json
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence  # of the dataclass below
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from console.attach.files import scripts
from console.attach.files.copy_progress import EntryKind
from console.attach.ssh.pod_keys import MAX_PROBE_BYTES, parse_probe
from console.checkpoints.completeness import StoredFile, read_needed_sizes, survey_checkpoints
from console.checkpoints.saved_state import SavedState, list_checkpoint_faults, values_to_resume
from console.errors import ConsoleError
from console.google.builds import ImageReference
from console.kube import websocket
from console.kube.api_errors import error_from_status
from console.kube.exec import exit_code
from console.kube.kubeconfig import Kubeconfig
from console.kube.snapshot import FLEET_FIELDS, Fleet
from console.kube.watched_kinds import KINDS
from console.launch.helm import MAX_MANIFEST_CHARACTERS, _find_foreign_part
from console.launch.helm_command import looks_like_helm, parse_helm_line
from console.launch.helm_set_parser import SetValues
from console.launch.releases import _is_small
from console.launch.yaml_read import YamlSyntaxError, parse_text
from console.logs.log_line import MAX_LINE_BYTES, split_timestamps
from console.metrics.gpu_metrics import parse_dcgm, parse_nvidia_smi
from console.metrics.gpu_reader import MAX_REPORT_BYTES
from console.scheduling.launch_forecast import LaunchDemand, forecast
from console.scheduling.pod_failure import first_of_latest_attempt, rank_failures
from console.scheduling.pod_slots import PodSlot, pod_slots
from console.scheduling.quota_ledger import queue_account
from console.scheduling.topology import build_floor, build_pools
from console.scheduling.why_job import why_job
from console.scheduling.why_workload import why_workload
from rankscope import (
    NO_REPORT,
    HangReport,
    LateRank,
    PodAnswer,
    RasReport,
    SlowReport,
    UnreadableAnswer,
    add_samples,
    add_times,
    build_question,
    describe_dumps,
    find_slow_ranks,
    format_report,
    format_slow_report,
    judge_dumps,
    list_processes,
    parse_answer,
    parse_or_explain,
    parse_polls,
    parse_ras,
    poll_ras,
    probe,
    read_answer,
    read_samples,
    read_times,
    refuse_foreign_ranks,
    report_to_json,
    slow_report_to_json,
)
from screens.sanitize import for_terminal, one_line
from screens.widgets.styled_text import fit_text, wrap_text
from tests.fuzz import grammar, grammar_files
from tests.hostile.payloads import PAYLOADS, RAW
from trainlog import LogResults, Redactor, looks_confidential

FIXTURES = Path(__file__).parents[1] / "fixtures"


def fixtures(pattern: str, most: int = 60_000) -> list[bytes]:
    """Recordings to begin from, cut to a size that is quick to read."""
    return [path.read_bytes()[:most] for path in sorted(FIXTURES.glob(pattern))]


def texts(*words: str) -> list[bytes]:
    return [word.encode(errors="replace") for word in words]


def _lists(data: bytes) -> None:
    for kind in KINDS:
        page = kind.reader.read_page(data)
        kind.reader.build_models(page.items)


def _objects() -> list[bytes]:
    """Every object of the recorded lists by itself, in a list of one."""
    found = []
    for path in sorted((FIXTURES / "api").glob("*.json")):
        for item in json.loads(path.read_text()).get("items", [])[:4]:
            found.append(json.dumps({"metadata": {"resourceVersion": "1"}, "items": [item]}).encode())
    return found


def _lines(data: bytes) -> None:
    for kind in KINDS:
        kind.reader.read_event(data)


def _snapshots(data: bytes) -> None:
    """What follows from objects that could be read: places, queues, ranks and reasons."""
    found: dict[str, Any] = {}
    for kind in KINDS:
        found[FLEET_FIELDS[kind.plural]] = kind.reader.build_models(kind.reader.read_page(data).items)[0]
    fleet = Fleet(at=1.8e9, **found)
    build_pools(fleet)
    for node in build_floor(fleet.nodes.values(), fleet).blocks:
        assert node.name is not None
    for workload in fleet.workloads.values():
        why_workload(workload, fleet)
    for jobset in fleet.jobsets.values():
        why_job(jobset, fleet)
        pod_slots(jobset, fleet)
        first_of_latest_attempt(rank_failures(jobset, fleet))
    for queue in fleet.cluster_queues.values():
        queue_account(fleet, queue.name)
    for local in fleet.local_queues.values():
        forecast(fleet, LaunchDemand(local.namespace, local.name, topology="required"))


def _together() -> list[bytes]:
    """Lists of one object of each kind. Every kind reads all of them, so that each object is read as each kind."""
    lists = [json.loads(path.read_text()).get("items", [])[:3] for path in sorted((FIXTURES / "api").glob("*.json"))]
    return [
        json.dumps({"metadata": {}, "items": [each[number % len(each)] for each in lists if each]}).encode()
        for number in range(3)
    ]


def _logs(data: bytes) -> None:
    reading, size = LogResults(), max(500, len(data) >> 12)  # bytes of a piece: 4,096 pieces at most
    for start in range(0, len(data), size):
        reading.feed(data[start : start + size])
    reading.close()


def _redacted(data: bytes) -> None:
    lines = data.split(b"\n")
    assert len(Redactor().redact_lines(lines)) == len(lines)
    looks_confidential(data.decode(errors="replace"))


def _width(data: bytes) -> None:
    text = data.decode(errors="replace")[:300]
    for width in (0, 1, 2, 7, 80, 180):
        assert cell_len(fit_text(text, width)) == width
        assert width == 0 or all(cell_len(line) <= width for line in wrap_text(text, width))
    assert not RAW.search(one_line(text))
    assert not RAW.search(for_terminal(text))


class _Sink:
    def begin(self) -> None:
        """A message begins."""

    def feed(self, data: memoryview) -> None:
        """A part of it."""

    def control(self, kind: int, data: bytes) -> None:
        if kind == websocket.CLOSE:
            websocket.close_reason(data)


def _frames(data: bytes) -> None:
    try:
        websocket.FrameReader(_Sink()).feed(memoryview(data))
    except ValueError:
        return  # what the WebSocket takes for the end


def _yaml(data: bytes) -> None:
    try:
        parse_text(data.decode(errors="replace"))
    except YamlSyntaxError:
        return


def _kubeconfig(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        found = Kubeconfig()
        found.merge(Path(file.name))
        found.target()


def _helm(data: bytes) -> None:
    text = data.decode(errors="replace")
    looks_like_helm(text)
    values = SetValues()
    for option, word in parse_helm_line(text, {"A": "b"}).settings:
        values.add(option, word.text, word.unknown_variables)


def _release(data: bytes) -> None:
    _is_small(data.decode("latin-1"))
    _find_foreign_part(data.decode(errors="replace"), "train", "default")


def _copy(data: bytes) -> None:
    scripts.parse_checksums(data)
    entries = scripts.parse_tree(data)
    files = [StoredFile(each.path, each.size, each.modified) for each in entries if each.kind is EntryKind.FILE]
    _survey(files, _Folder(dict.fromkeys((each.path for each in files), b"{}")))


def _answers(data: bytes) -> None:
    parse_answer(data)
    exit_code(data, "run a command")


def _hang(data: bytes, ras: RasReport = NO_REPORT) -> None:
    """The whole way from what two pods print to the page; the first is asked for stacks, too."""
    first, other = parse_or_explain(data), PodAnswer([])
    if isinstance(first, PodAnswer):
        first = first.add_stacks(first, range(8))
    answers = refuse_foreign_ranks([(PodSlot(0, "w", 0, 0, 8), first), (PodSlot(1, "w", 0, 1, 8), other)])
    pods, processes = list_processes(answers)
    dumps = [dump for _, answer in answers if isinstance(answer, PodAnswer) for dump in answer.recorder]
    question, groups = build_question(dumps)
    assert question
    read_answer(b'{"found":[{"group":0,"seq":1,"op":"x","missing":[0,1]}]}', groups)
    ras = ras.with_job_ranks({(each.node, each.pid): number for number, each in enumerate(ras.odd)})
    report = HangReport(
        "job", tuple(pods), tuple(processes), ras.with_node_names({}), recorded=judge_dumps(dumps),
        recorder_words=describe_dumps(dumps),
    )  # fmt: skip
    assert report.verdict
    _strict_json(report_to_json(report))
    format_report(report, stacks=True)


def _strict_json(tree: object) -> None:
    json.dumps(tree, allow_nan=False)


def _ras(data: bytes) -> None:
    report = parse_ras(data.decode(errors="replace"))
    report = report.compare_with(report)
    assert report.words or not report.odd or not report.version
    assert len(report.odd) <= 100_000
    report.covers_all(8)
    _hang(b'{"processes": [{"pid": 1, "rank": 0}]}', report)


def _stacks(data: bytes) -> None:
    text = data.decode(errors="replace")
    told = [{"pid": number, "rank": number, "dump": text} for number in range(2)]
    _hang(json.dumps({"processes": told, "py_spy": "/usr/bin/py-spy"}).encode())


_ASKED = grammar.hang(random.Random(5))


def _analysis(data: bytes) -> None:
    dumps = parse_answer(_ASKED).recorder
    found = read_answer(data, build_question(dumps)[1])
    assert found.compare((0, 1))
    _strict_json(report_to_json(HangReport("job", (), (), dumps=tuple(dumps), analysis=found)))


def _recording(data: bytes) -> None:
    """What the script in the pod reads of a dump, and what is judged by that; it passes over those that are none."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        with suppress(Exception):  # as probe.recorder
            dumped = dict(probe.read_dump(file.name), rank=0)
            said = json.dumps({"processes": [], "recorder": [dumped, dict(dumped, rank=1)]}).encode()
            timed = json.dumps({"ranks": [dict(probe.read_times(file.name, 20.0), rank=0)]}).encode()
        if "said" in locals():
            _hang(said)
        if "timed" in locals():
            _times(timed)


def _ras_in_pod(data: bytes) -> None:
    """What the script in the pod prints of NCCL's answers, which it ends with words about what it cannot read."""
    printed = poll_ras.PollPrinter()
    try:
        for at in range(3):
            printed.print_answer(data.decode(errors="replace"), at / 10, 0.001)
    except poll_ras.READ_ERRORS as error:
        printed.print_end(str(error))
    _polls("\n".join(printed.lines).encode())


def _polls(data: bytes) -> None:
    _show_slow(find_slow_ranks(parse_polls(data, 1024)))


def _times(data: bytes) -> None:
    polls = SlowReport(ranks=16, polls=200, seconds=20.0, steps=20)
    _show_slow(add_times(polls, read_times({0: data, 1: data}, {"10.0.0.1": 0, "10.0.0.2": 1}), {0: "a", 1: "b"}))


def _samples(data: bytes) -> None:
    late = LateRank(0, "10.0.0.1", 7, 0, 0.3, 0.2, 0.4, slow=True)
    _show_slow(add_samples(SlowReport(late=(late,)), *read_samples({0: data})))


def _show_slow(report: SlowReport) -> None:
    assert report.words
    _strict_json(slow_report_to_json(report))
    format_slow_report(report)


class _Folder(dict[str, bytes]):
    """A checkpoint folder: what its files hold."""

    async def read_heads(self, wanted: Mapping[str, int]) -> Mapping[str, bytes]:
        return {path: self[path][:size] for path, size in wanted.items()}

    async def read_tails(self, wanted: Mapping[str, int]) -> Mapping[str, bytes]:
        return {path: self[path][-size:] for path, size in wanted.items()}


def _checkpoint(data: bytes) -> None:
    """Every file begins and ends with the input."""
    names = ("model-00001-of-00002.safetensors", "model.safetensors.index.json", "a.pt", ".metadata", "latest")
    files = [StoredFile(f"checkpoint-{number}/{name}", len(data), 1.0) for number in (1, 2) for name in names]
    _survey(files, _Folder(dict.fromkeys((each.path for each in files), data)))


def _folder(data: bytes) -> None:
    files, contents = [], _Folder()
    # Of the form in which the input describes a folder, not of a decoder.
    with suppress(ValueError, TypeError, OverflowError, RecursionError):
        for path, size, when, content in json.loads(data)[:20_000]:
            files.append(StoredFile(str(path), min(max(0, int(size)), 1 << 60), float(when)))
            contents[str(path)] = str(content).encode("latin-1", "replace")
    _survey([each for each in files if each.path in contents], contents)


def _survey(files: Sequence[StoredFile], contents: _Folder) -> None:
    found = asyncio.run(survey_checkpoints(files, contents, 1e9, "run"))
    assert sum(len(each.problems) for each in found.checkpoints) <= 1000 + 3 * len(files) + len(found.checkpoints)
    list_checkpoint_faults(found)
    values_to_resume(SavedState(1.0, "/runs", found), ("recipe.train.checkpoint",))


def _metadata(data: bytes) -> None:
    assert read_needed_sizes(data)


def _text(function: Callable[[str], Any], data: bytes) -> None:
    function(data.decode(errors="replace"))


@dataclass(frozen=True, slots=True)
class Target:
    """Reads bytes; `seeds` are what the random inputs are made of, or `grammar` makes whole ones."""

    read: Callable[[bytes], object]
    seeds: list[bytes]
    grammar: Callable[[random.Random], bytes] | None = None
    longest: int = 8 << 20  # bytes of an input: as many as a pod may print


AT_ONCE = 1 << 18  # bytes that a connection reads at once
OWN = 200_000  # bytes of what a person writes, or what only the practice cluster reads
KUBECONFIG = """
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: n}}]
clusters: [{name: k, cluster: {server: "https://h:6443", certificate-authority-data: QUJD, proxy-url: "http://p:1"}}]
users: [{name: u, user: {token: t, exec: {apiVersion: v1, command: x, env: [{name: A, value: b}]}}}]
"""
HELM = """helm install job ./chart -n team --set gpus=16,queue=a4 --set-string 'env.A=b,c' --set-json 'x={"a":[1]}'"""
MANIFEST = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n  labels:\n    app.kubernetes.io/name: a4\n"
STATUS = '{"kind":"Status","code":403,"reason":"Forbidden","message":"no","details":{"retryAfterSeconds":3}}'
PROBE = "user root\nhome /root\nfolder /workspace\nauthorized ssh-ed25519 AAAA x\nhostkey ssh-ed25519 AAAA\nend yes\n"
TREE = "d|0|755|1.5|.\0\0f|12|644|1700000000.1|./a b\0\0l|0|777|0|./l\0target\0"

SECRETS = (
    "token=hf_AbCdEfGhIjKlMn", "Authorization: Bearer a.b-1", "-----BEGIN PRIVATE KEY-----\nMII\n",
    "-----END PRIVATE KEY-----", 'WANDB_API_KEY 0123abcd "password": "two words"', "\x1b[31mdb_pass\x1b[0m: x",
    "https://u:p@h/ eyJhbGciOi.eyJzdWIi.c2ln curl -u a:b docker login -p x cookie: a=b?sig=abcdefgh",
)  # fmt: skip
DCGM = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n",pod="p"} 97\n# HELP x\n'
EVENTS = [b'{"type": "MODIFIED", "object": ' + each[41:-2] + b"}" for each in _objects()]

TARGETS: dict[str, Target] = {
    "lists": Target(_lists, _objects()),
    "snapshots": Target(_snapshots, _together()),
    "watch lines": Target(_lines, [*EVENTS, STATUS.encode()]),
    "logs": Target(_logs, fixtures("*.txt", 2000) + fixtures("h200/*.txt", 2000)),
    "redaction": Target(_redacted, texts(*SECRETS), longest=MAX_LINE_BYTES),
    "text width": Target(_width, texts(*PAYLOADS.values(), "plain words", "日本語 🙂")),
    "exec answers": Target(_answers, [*fixtures("h200/hang_rank*.json", 4000), STATUS.encode()]),
    "copy listings": Target(
        _copy, texts(TREE, "0" * 64 + "  ./a\n", "\\" + "0" * 64 + "  ./a\\nb\n"), grammar_files.tree
    ),
    "ssh probes": Target(partial(_text, partial(parse_probe, "pod")), texts(PROBE), longest=MAX_PROBE_BYTES),
    "release Secrets": Target(_release, texts(MANIFEST, "H4sIAAAAAAAA", "x"), longest=MAX_MANIFEST_CHARACTERS),
    "kubeconfigs": Target(_kubeconfig, texts(KUBECONFIG), longest=OWN),
    "hang answers": Target(
        _hang, [*fixtures("h200/hang_rank*.json", 4000), grammar.hang(random.Random(1))], grammar.hang
    ),
    "polls of NCCL": Target(_polls, [grammar.polls(random.Random(1))], grammar.polls),
    "times": Target(_times, [grammar.times(random.Random(1))], grammar.times),
    "samples": Target(_samples, [grammar.samples(random.Random(1))], grammar.samples),
    "stacks": Target(_stacks, fixtures("h200/hang_rank*.txt", 4000), grammar_files.stacks),
    "analyses": Target(_analysis, [grammar_files.analysis(random.Random(1))], grammar_files.analysis),
    "recordings": Target(_recording, [grammar_files.recording(random.Random(2))], grammar_files.recording),
    "headers": Target(_checkpoint, [grammar_files.header(random.Random(1))], grammar_files.header),
    "metadata": Target(_metadata, [grammar_files.metadata(random.Random(1))], grammar_files.metadata),
    "checkpoints": Target(_folder, [grammar_files.folder(random.Random(1))], grammar_files.folder),
    "RAS": Target(_ras, fixtures("h200/hang_ras*.txt"), grammar_files.ras),
    "RAS in pods": Target(_ras_in_pod, fixtures("h200/hang_ras*.txt"), grammar_files.ras_json),
    "GPUs": Target(parse_nvidia_smi, fixtures("h200/*nvidia_smi*", 6000), longest=MAX_REPORT_BYTES),
    "DCGM": Target(partial(_text, parse_dcgm), texts(DCGM)),
    "refusals": Target(lambda data: error_from_status(403, data, action="try"), texts(STATUS, "<html>", "no")),
    "frames": Target(
        _frames,
        [websocket.frame_header(2, b"\1abc"), websocket.frame_header(8, b"\x03\xe8"), b"\x82\x7e\x00\x05hello"],
        longest=AT_ONCE,
    ),
    "YAML of the form": Target(_yaml, texts("gpus: 16\nenv:\n  A: b\nlist: [1, {a: b}]\n", KUBECONFIG), longest=OWN),
    "helm lines": Target(_helm, texts(HELM), longest=OWN),
    "stamped lines": Target(
        lambda data: split_timestamps(data.split(b"\n")), texts("2026-11-21T07:00:00.5Z a\nb"), longest=MAX_LINE_BYTES
    ),
    "image names": Target(
        partial(_text, ImageReference.of), texts("us-docker.pkg.dev/p/r/i:1", "gcr.io/a/b@sha256:0", "a")
    ),
}


def run(target: Target, data: bytes) -> None:
    """Read it; errors of ours are answers."""
    try:
        target.read(data)
    except (ConsoleError, UnreadableAnswer):
        return
