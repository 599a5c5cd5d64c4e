"""Inputs with the structure of real files and texts: reports of NCCL, stacks, dumps, profiles and checkpoints."""

import json
import pickle
import random
import struct
from collections.abc import Callable
from typing import Any

from tests.fuzz import grammar_classes as made
from tests.fuzz.grammar import NAMES, OPS, Source, members, number, packed, seconds, some

HASHES = ("0x58aecebabb9e37af", "0x" + "a" * 16, "0xA", "c454a3c31c8de38c")
COLLECTIVES = ("AllReduce", "AllGather", "Broadcast", "x" * 41)
SHAPES: tuple[list[Any], ...] = ([], [512, 4096], [1] * 9, [-1, 1 << 60])


NOW = 1_780_000_000_000_000_000  # nanoseconds


def ras(chance: random.Random) -> bytes:
    """NCCL's verbose status, as text."""
    source = Source(chance)

    def ranks() -> str:
        return ", ".join(map(str, members(source))) if source.random() < 0.8 else f"0-{number(source, 64)}, 5-2"

    def line() -> str:
        own, gpu, pid = number(source, 16), number(source, 8), number(source, 9)
        where = f"GPU {gpu}{source.choice(('', f' (NVML {gpu})'))} managed by process {pid} on node 10.0.0.{gpu}"
        launched = source.choice((f"launched up to operation {number(source, 9)}", "not launched any operations"))
        return source.choice((
            f"  Rank {own} has {launched} -- {where}", f"  Ranks {ranks()} have {launched}", f"  Rank {own} -- {where}",
            f"  {number(source, 64)} ranks have {launched}", f"  Process {pid} on node 10.0.0.{gpu} managing GPU {gpu}",
            f"  Rank {own} reported {source.choice(('Invalid usage', 'Remote process error'))} -- {where}",
            f"  Rank {own} has status {source.choice(('RUNNING', 'ABORT'))} -- {where}",
            f"  {number(source, 64)} ranks reported Invalid usage", source.choice(NAMES), "",
        ))  # fmt: skip

    def section(at: int) -> list[str]:
        warnings = [f"#{at}-0 ({source.choice(HASHES)[2:]}) MISMATCH"]
        for _ in range(source.choice((0, 1, 3))):
            warnings += [f"  Communicator ranks have different {source.choice(COLLECTIVES)} operation counts",
                         *some(source, 12, line)]  # fmt: skip
        return [*warnings, *some(source, 3, line)]

    groups = range(source.choice((0, 1, 3)))
    rows = [
        f"    {at}  {number(source, 9)}  1  {number(source, 8)}  {number(source, 64)}  {number(source, 64)}   "
        f"{source.choice(('RUNNING', 'INIT', 'MIXED'))}  {source.choice(('OK', 'MISMATCH', 'INCOMPLETE,ERROR'))}"
        for at in groups
    ]
    lines = ["NCCL version 2.28.9 compiled with CUDA 13.0", f"  1  4  1  {number(source, 64)}  4", *rows, "Warnings"]
    return "\n".join([*lines, *(each for at in groups for each in section(at)), ""]).encode()


def ras_json(chance: random.Random) -> bytes:
    source = Source(chance)

    def rank(own: int) -> dict[str, Any]:
        counts = {name: number(source, 50) for name in COLLECTIVES[:3]}
        return {"rank": own, "host": f"10.0.0.{own % 4}", "pid": number(source, 99), "nvml_dev": number(source, 8),
                "cuda_dev": 0, "status": {"abort_flag": 0}, "collective_counts": counts}  # fmt: skip

    def communicator() -> dict[str, Any]:
        several = [rank(own) for own in members(source)]
        return {"hash": source.choice(HASHES), "secondary_hash": source.choice(HASHES), "size": number(source, 64),
                "ranks": several, "missing_ranks": []}  # fmt: skip

    return packed({
        "nccl_version": "2.28.9", "ras": {"collection_time_sec": seconds(source, 0.001)},
        "communicators": some(source, 4, communicator),
    })  # fmt: skip


def stacks(chance: random.Random) -> bytes:
    """Dumps of py-spy, as text or JSON."""
    source = Source(chance)
    calls = (
        ("wait (threading.py:355)", "_try_get_data (torch/utils/data/dataloader.py:1275)", "main (train.py:40)"),
        ("all_reduce (torch/distributed/distributed_c10d.py:2696)", "backward (torch/autograd/graph.py:824)"),
        ("synchronize (torch/cuda/streams.py:105)", "<module> (x y (z).py)", "0x7f3 (libc.so.6)", "f (a.py:0)"),
        (f"{'f' * 600} ({'d/' * 400}x.py:{10**9})", 'x: "y"', "Arguments:", "  self: <X at 0x1>"),
    )

    def thread_text() -> str:
        name, state = (
            source.choice(("", ': "MainThread"', f': "{NAMES[5]}"')),
            source.choice(("active", "idle", "idle+gil")),
        )
        lines = "".join(f"    {call}\n" for call in source.choice(calls))
        return f"Thread {source.choice(('0x7F3A', number(source, 99)))} ({state}){name}\n{lines}"

    def text() -> str:
        threads = "".join(thread_text() for _ in range(source.choice((0, 1, 2, 9))))
        head = source.choice((f"== pid {number(source, 99)} ==\n", "[rank3]: ", ""))
        return f"{head}Process {number(source, 99)}: python train.py\nPython v3.12.3 (/usr/bin/python)\n\n{threads}"

    def thread() -> dict[str, Any]:
        frames = [
            {"name": call.partition(" (")[0], "filename": f"/app/{call.partition(' (')[2]}", "module": None,
             "short_filename": source.choice((None, "train.py")), "line": number(source, 99), "locals": None}
            for call in source.choice(calls)
        ]  # fmt: skip
        return {
            "pid": number(source, 9), "thread_id": number(source, 99), "thread_name": source.choice((None, *NAMES)),
            "os_thread_id": number(source, 99), "active": source.random() < 0.5, "owns_gil": source.random() < 0.1,
            "frames": frames, "process_info": {"pid": 7, "ppid": 1, "command_line": "python train.py"},
        }  # fmt: skip

    if source.random() < 0.5:
        return (text() + source.choice(("", text(), "Error: Failed to suspend\n"))).encode()
    return json.dumps(some(source, 9, thread), indent=2).encode()


def analysis(chance: random.Random) -> bytes:
    """What PyTorch's own analyser is said to have found."""
    source = Source(chance)

    def found() -> dict[str, Any]:
        culprits = dict.fromkeys(map(str, members(source)), "COLLECTIVE_STATE_MISMATCH")
        return {"group": number(source, 3), "seq": number(source, 20), "op": source.choice(OPS),
                "missing": members(source), "culprits": culprits}  # fmt: skip

    return packed({
        "torch": "2.11.0", "found": some(source, 4, found), "failed": {str(number(source, 3)): source.choice(NAMES)},
        "log": source.choice(NAMES), "why": source.choice(("", "no interpreter has it")),
    })  # fmt: skip


def recording(chance: random.Random) -> bytes:
    """A dump of PyTorch's flight recorder, as a rank writes it."""
    source = Source(chance)

    def entry(seq: int) -> dict[str, Any]:
        frames = [
            {"name": "step", "filename": name, "line": number(source, 99)} for name in ("/app/train.py", *NAMES[4:6])
        ]
        named = source.choice(NAMES[:4])
        return {
            "record_id": seq, "pg_id": number(source, 4), "process_group": (named, "default_pg"),
            "collective_seq_id": seq, "p2p_seq_id": number(source, 4), "op_id": seq,
            "profiling_name": source.choice(OPS), "time_created_ns": NOW + number(source, 10**9),
            "duration_ms": seconds(source, 0.7),
            "input_sizes": [source.choice(SHAPES)], "input_dtypes": ["BFloat16"], "output_sizes": [[512]],
            "output_dtypes": [source.choice(NAMES)], "state": source.choice(("scheduled", "started", "completed")),
            "time_discovered_completed_ns": source.choice((None, NOW + number(source, 10**9))),
            "retired": source.random() < 0.5, "timeout_ms": 600_000, "is_p2p": source.random() < 0.2, "frames": frames,
        }  # fmt: skip

    config = {name: {"name": name, "desc": source.choice(NAMES), "ranks": str(members(source))} for name in NAMES[:4]}
    entries: list[Any] = [entry(seq) for seq in range(source.choice((0, 1, 40)))]
    if source.random() < source.odd:
        entries.append(source.choice((entries, (entries,) * 9, {"state": entries}, None)))
    dump = {"version": source.choice(("2.10", *NAMES)), "pg_config": config, "pg_status": {}, "entries": entries}
    return pickle.dumps(dump, source.choice((2, 2, 4, 5)))


def header(chance: random.Random) -> bytes:
    """The beginning of a file of safetensors."""
    source = Source(chance)
    table: dict[str, Any] = {
        name: {"dtype": "BF16", "shape": source.choice(SHAPES), "data_offsets": [0, number(source, 99)]}
        for name in NAMES
    }
    claimed = packed(table | {"__metadata__": {"format": "pt"}})
    return struct.pack("<Q", source.choice((len(claimed), number(source, 999) % (1 << 64)))) + claimed


def metadata(chance: random.Random) -> bytes:
    """A DCP's metadata: places by indices, written as some protocol does, with keys that only look like keys."""
    source = Source(chance)
    key: Any = 1
    for _ in range(source.choice((0, 0, 3, 60))):
        key = (key, key)
    ring: list[Any] = [key]
    ring.append(source.choice((ring, {1: ring}, None)))
    names = ("__0_0.distcp", "__1_0.distcp", *NAMES)
    places: dict[Any, Any] = {
        made.Index(source.choice(NAMES)): made.Place(source.choice(names), number(source, 99), number(source, 99))
        for _ in range(source.choice((0, 1, 9, 300)))
    }
    if places and source.random() < source.odd:
        wrong: tuple[Any, ...] = (None, 0.5, True, float("nan"), "1", [1], key, 1 << 900)
        places[made.Index("odd")] = made.Place(source.choice((*wrong, "a")), *source.choices(wrong, k=2))
    return pickle.dumps(made.Metadata({"a": ring, "b": {1, 2}, "c": 0.5, "d": b"x", "e": None}, places),
                        source.choice((2, 3, 4, 5)))  # fmt: skip


HOMES = ("iter_0000010", "checkpoint-20", "global_step30", "step-1e9", "40", "a/epoch=1-step=2", "../x", "", "tmp-50")
FILES: tuple[tuple[str, Callable[[random.Random], bytes] | None], ...] = (
    ("model-00001-of-00002.safetensors", header), ("model-00001-of-99999.safetensors", header), ("a.pt", None),
    ("model.safetensors.index.json", None), (".metadata", metadata), ("__0_0.distcp", None), ("latest", None),
    ("latest_checkpointed_iteration.txt", None), ("mp_rank_00_model_states.pt", None), ("commit_success.txt", None),
    ("zero_pp_rank_99999_mp_rank_99999_optim_states.pt", None), ("rng_state_7.pth", None), ("common.pt", None),
    ("model_world_size_99999_rank_3.pt", None), ("trainer_state.json", None), ("x" * 300, None),
    ("pp-rank-0-of-9_tp-rank-1-of-9.safetensors", header), ("iter_0000010_3_local.dirty.pt", None),
)  # fmt: skip


def folder(chance: random.Random) -> bytes:
    """Checkpoints as a list of [path, size, time, content]: names, pointers and indexes that agree, mostly."""
    source = Source(chance)
    index = json.dumps({"weight_map": {name: source.choice(FILES)[0] for name in NAMES}})
    texts = ("global_step30", "10", "release", "{}", index, "PK\3\4" + "\0" * 30 + "PK\5\6" + "\0" * 18, "\0" * 40, "[")

    def file() -> list[Any]:
        name, make = source.choice(FILES)
        content = make(chance).decode("latin-1") if make and source.random() < 0.8 else source.choice(texts)
        size = len(content) if source.random() < 0.8 else number(source, 999)
        return [f"{source.choice(HOMES)}/{name}".lstrip("/"), size, seconds(source, 1e9), content]

    return packed([file() for _ in range(source.choice((1, 4, 30)))])


def tree(chance: random.Random) -> bytes:
    """A listing of a folder in a container."""
    source = Source(chance)

    def entry() -> str:
        path = f"./{source.choice(HOMES)}/{source.choice(FILES)[0]}"
        kind = source.choice(("d", "f", "f", "f", "l", "b", "regular file", "directory"))
        return (
            f"{kind}|{number(source, 9999)}|{source.choice((644, 755, 7777, 99))}|{seconds(source, 1.7e9)}|{path}\0\0"
        )

    return "".join(some(source, 40, entry)).encode()
