"""A script that runs inside a pod, read from standard input: it finds the training or test processes and where they
hang.

It prints JSON. Of programs that are no Python, such as nccl-tests, it says what the kernel says.

It stands alone, so it has over 500 lines, for Python 3.7 and newer, and changes nothing. A4_PROC names another
folder than /proc.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import pickle
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

PROC_FOLDER = os.environ.get("A4_PROC", "/proc")
RDMA_FOLDER = "/sys/class/infiniband"
PY_SPY_TIMEOUT = 15
"""Seconds to wait for one stack."""
MAX_CONCURRENT_DUMPS = 4
MAX_PROCESSES = 64
"""Maximum processes of one pod."""
LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID", "MPI_LOCALRANKID")
RANK_VARIABLES = ("RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK")
HELPER_COMMAND = re.compile(
    r"multiprocessing\.(spawn|resource_tracker|forkserver|semaphore_tracker)|compile_worker|torchrun|"
    r"torch\.distributed\.(run|launch)|jupyter|tensorboard|\bpip\b|py-spy|supervisord|deepspeed\.launcher"
)

NCCL_TEST_PROGRAM = re.compile(r"\w+_perf(_mpi)?")
"""Names of programs of nccl-tests."""
MPI_PROGRAMS = frozenset(["mpirun", "mpiexec", "orterun", "prterun", "orted", "prted", "prte", "hydra_pmi_proxy"])


def read_file(path: str, limit: int = 65536) -> bytes:
    """The first `limit` bytes of a file, empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return b""


def read_process(pid: int) -> dict[str, Any] | None:
    """The facts in /proc about a process; None if it has gone or is a kernel thread."""
    folder = os.path.join(PROC_FOLDER, str(pid))
    argv = [part.decode("utf-8", "replace") for part in read_file(folder + "/cmdline").split(b"\0") if part]
    if not argv:
        return None
    status = dict(
        line.split(":", 1)
        for line in read_file(folder + "/status").decode("utf-8", "replace").splitlines()
        if ":" in line
    )
    environ = read_file(folder + "/environ", 1 << 20).decode("utf-8", "replace")
    env = dict(part.split("=", 1) for part in environ.split("\0") if "=" in part)
    threads = status.get("Threads", "").strip()
    return {
        "pid": pid,
        "ppid": int(status.get("PPid", "0").strip() or 0),
        "argv": argv,
        "command": " ".join(argv)[:500],
        "state": status.get("State", "").strip()[:1],
        "threads": int(threads) if threads.isdigit() else None,
        "wchan": read_file(folder + "/wchan").decode("utf-8", "replace").strip("\0\n 0"),
        "cpu": read_cpu_time(folder),
        "program": "",
        "env": env,
    }


def read_cpu_time(folder: str) -> float | None:
    """Average CPU use of a process since its start, in percent of one core; None if unknown."""
    stat = read_file(folder + "/stat").decode("utf-8", "replace").rpartition(")")[2].split()
    up = read_file(os.path.join(PROC_FOLDER, "uptime")).split()
    if len(stat) < 20 or not up:
        return None
    ticks = float(os.sysconf("SC_CLK_TCK"))
    lived = float(up[0]) - int(stat[19]) / ticks
    return round(100 * (int(stat[11]) + int(stat[12])) / ticks / lived, 1) if lived > 0 else None


def env_number(env: dict[str, str], names: tuple[str, ...]) -> int | None:
    """The value of the first of these environment variables that is a number; None if none is."""
    return next((int(env[name]) for name in names if env.get(name, "").isdigit()), None)


def read_all_processes() -> dict[int, dict[str, Any]]:
    own = os.path.basename(os.path.realpath(os.path.join(PROC_FOLDER, "self")))
    every = (read_process(int(name)) for name in os.listdir(PROC_FOLDER) if name.isdigit() and name != own)
    return {each["pid"]: each for each in every if each}


def program_name(process: dict[str, Any]) -> str:
    return os.path.basename(str(process["argv"][0]))


def working_processes(processes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The processes that do the pod's work: a training's, else those of nccl-tests, else any Python."""
    found = training_processes(processes)
    tests = [processes[pid] for pid in sorted(processes) if NCCL_TEST_PROGRAM.fullmatch(program_name(processes[pid]))]
    if not tests or any(each["local_rank"] is not None for each in found):
        return found
    for each in tests:
        each.update(
            program=program_name(each),
            local_rank=env_number(each["env"], LOCAL_RANK_VARIABLES),
            rank=env_number(each["env"], RANK_VARIABLES),
        )
    return tests[:MAX_PROCESSES]


def launcher_processes(processes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The MPI launcher processes, the outermost first."""
    return [
        dict(processes[pid], program=program_name(processes[pid]))
        for pid in sorted(processes)
        if program_name(processes[pid]) in MPI_PROGRAMS
    ]


def training_processes(processes: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """The training processes of the pod, one for each rank, without their launcher and helpers."""
    pythons = {
        pid: each
        for pid, each in processes.items()
        if "python" in program_name(each) and not HELPER_COMMAND.search(each["command"])
    }
    ranked = {pid: each for pid, each in pythons.items() if env_number(each["env"], LOCAL_RANK_VARIABLES) is not None}
    chosen = ranked or pythons
    # Workers of a data loader have their parent's command line and environment; the parent is the rank.
    first = [each for each in chosen.values() if each["ppid"] not in chosen]
    if not ranked:
        first = [each for each in first if each["pid"] != 1 or len(first) == 1]
    found: dict[Any, Any] = {}
    for each in sorted(first, key=lambda one: one["pid"]):
        each["local_rank"] = env_number(each["env"], LOCAL_RANK_VARIABLES)
        each["rank"] = env_number(each["env"], RANK_VARIABLES) if each["local_rank"] is not None else None
        found.setdefault(each["rank"] if each["rank"] is not None else ("pid", each["pid"]), each)
    return list(found.values())[:MAX_PROCESSES]


def find_py_spy(processes: list[dict[str, Any]]) -> str:
    """Path of py-spy; empty if it is not installed."""
    folders = [os.path.dirname(sys.executable), "/usr/local/bin", os.path.expanduser("~/.local/bin")]
    folders += [os.path.dirname(each["argv"][0]) for each in processes if each["argv"][0].startswith("/")]
    return shutil.which("py-spy") or shutil.which("py-spy", path=os.pathsep.join(folders)) or ""


def dump_stacks(tool: str, each: dict[str, Any]) -> tuple[str, str]:
    """(stacks of a process as py-spy prints them, error message); one of the two is empty."""
    # One that sleeps in the kernel until storage answers never comes to a halt, and py-spy would wait for it.
    beside = ["--nonblocking"] if each["state"] == "D" else []
    try:
        done = subprocess.run(
            [tool, "dump", *beside, "--pid", str(each["pid"])], capture_output=True, timeout=PY_SPY_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy got no stack within {PY_SPY_TIMEOUT} s"
    except OSError as error:
        return "", str(error)
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace").strip() * bool(
        done.returncode
    )


def check_reachable(address: str, port: int) -> dict[str, Any]:
    """Whether a TCP port can be reached, as a dict with the fields `ok` and `why`."""
    began = time.time()
    tool = shutil.which("nc") if os.environ.get("A4_PROC") else None
    if tool:
        done = subprocess.run([tool, "-z", "-w", "3", address, str(port)], stderr=subprocess.PIPE, check=False)
        return {"ok": not done.returncode, "why": done.stderr.decode("utf-8", "replace").strip()}
    try:
        socket.create_connection((address, port), timeout=3).close()
    except OSError as error:
        return {"ok": False, "why": error.strerror or str(error)}
    return {"ok": True, "why": "", "ms": round((time.time() - began) * 1000, 1)}


def check_master(processes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The rendezvous address of the ranks, and whether it can be reached from here; None if it is not set."""
    for env in [each["env"] for each in processes] + [os.environ]:
        address, port = env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", "")
        if address and port.isdigit():
            return dict(check_reachable(address, int(port)), address=address, port=int(port))
    return None


def read_rdma_state() -> list[dict[str, str]]:
    root = os.environ.get("A4_RDMA", RDMA_FOLDER)
    names = sorted(os.listdir(root)) if os.path.isdir(root) else []
    return [
        {
            "name": name,
            "state": read_file(os.path.join(root, name, "ports/1/state")).decode().strip().rpartition(": ")[2],
            "rate": read_file(os.path.join(root, name, "ports/1/rate")).decode().strip(),
        }
        for name in names
    ]


def query_ras() -> dict[str, str]:
    """NCCL's verbose RAS status as `text`, or `why` the service does not answer; the other one is empty."""
    tool = shutil.which("ncclras")
    try:
        if tool:
            done = subprocess.run([tool, "-v"], capture_output=True, timeout=20, check=False)
            if not done.returncode:
                return {"text": done.stdout.decode("utf-8", "replace"), "why": ""}
        host, _, port = os.environ.get("NCCL_RAS_ADDR", "localhost:28028").rpartition(":")
        with socket.create_connection((host.strip("[]") or "localhost", int(port)), timeout=3) as door:
            door.settimeout(20)
            door.sendall(b"verbose status\n")
            received = b""
            while len(received) < 1 << 22:
                more = door.recv(65536)
                if not more:
                    break
                received += more
        return {"text": received.decode("utf-8", "replace"), "why": ""}
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"text": "", "why": getattr(error, "strerror", "") or str(error)}


RECORDER_PIPE_VARIABLE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
DUMP_FILE_VARIABLES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Variables with the prefix of the flight recorder's dump file; the rank is appended."""
DEFAULT_DUMP_PREFIXES = ("/tmp/nccl_trace_rank_", os.path.expanduser("~/.cache/torch/comm_lib_trace_rank_"))
RECORDER_TIMEOUT = 20.0
"""Seconds to wait for a dump: the first one of a process imports PyTorch's compiler."""
PIPE_UNREAD_TIMEOUT = 5.0
"""Seconds after which an unread pipe has no reader: PyTorch polls it every second while its watchdog runs."""
MAX_DUMP_BYTES = 64 << 20
"""Maximum bytes of a dump."""
MAX_TIMES, MAX_TIMES_ALONE, MAX_TIMES_TOGETHER = 500, 2000, 200_000
"""Maximum timed collectives of a group: for each rank of many, each of few, and in all. Dumps are up to 1 s apart."""
WATCHDOG_POLL_NS, MAX_WATCHDOG_POLLS = 20_000_000, 200
"""Maximum nanoseconds of a poll of PyTorch's watchdog, of which it makes ten a second; maximum polls reported."""
MAX_LAST_OPERATIONS, MAX_UNDONE_OPERATIONS = 8, 4
"""Maximum reported operations of a group: of the last ones, and of the first unfinished ones."""
MAX_HISTORY, MAX_KINDS = 500, 100
"""Maximum collectives of a group reported with their kind, and maximum number of kinds."""
MAX_TENSORS, MAX_DIMENSIONS = 2000, 64
"""Maximum characters on the tensors of a collective (some 100 tensors of 2 dimensions); maximum dimensions of one."""


SET_OPCODES = pickle.DICT, pickle.ADDITEMS, pickle.FROZENSET, pickle.EMPTY_SET
"""Pickle opcodes that no dump has: they hash their input, and an empty set takes 216 bytes for one byte of the file."""
COUNTED_OPCODES = (
    pickle.MARK, pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.MEMOIZE,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.DUP,
)  # fmt: skip
MAX_COUNTED_OPCODES = 2_000_000
"""Maximum one-byte opcodes of a dump: each takes up to 100 bytes; 20,000 operations with stacks have 1.6 million."""


def with_text_keys(code: bytes, keys: slice) -> Callable[[Any], None]:
    """A pickle opcode's function that stores into a dict the items whose keys, `keys` of the stack, are texts."""
    add = pickle._Unpickler.dispatch[code[0]]

    def add_checked(reader: Any) -> None:
        if not all(isinstance(key, str) for key in reader.stack[keys]):
            raise pickle.UnpicklingError("it has a key that is no text")
        add(reader)

    return add_checked


def refuse(reader: Any) -> None:
    raise pickle.UnpicklingError("it has a code that no dump has")


def counted_opcode(code: bytes) -> Callable[[Any], None]:
    """A pickle opcode's function that counts its calls: a dump may have `MAX_COUNTED_OPCODES` in all."""
    read = pickle._Unpickler.dispatch[code[0]]

    def read_counted(reader: Any) -> None:
        reader.single += 1
        if reader.single > MAX_COUNTED_OPCODES:
            raise pickle.UnpicklingError(f"it has more than {MAX_COUNTED_OPCODES:,} codes of one byte")
        read(reader)

    return read_counted


class NoClasses(pickle._Unpickler):
    """A pickle decoder in Python: the one in C reserves as much memory as the pickle asks for.

    Keys are texts, and there are no sets: the hash of nested tuples takes twice as long with each level.
    """

    dispatch: ClassVar = {
        **pickle._Unpickler.dispatch,
        **{code[0]: refuse for code in SET_OPCODES},
        **{code[0]: counted_opcode(code) for code in COUNTED_OPCODES},
        pickle.SETITEMS[0]: with_text_keys(pickle.SETITEMS, slice(None, None, 2)),
        pickle.SETITEM[0]: with_text_keys(pickle.SETITEM, slice(-2, -1)),
    }
    single = 0

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module[:80]}.{name[:80]}, and a dump has no classes")


def short_text(value: Any, max_length: int) -> str:
    """The text of a plain value; empty for one that holds others, whose text may have no end."""
    return str(value)[:max_length] if isinstance(value, (str, int, float)) else ""


def recorder(each: dict[str, Any], parse_text: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """The result of `parse_text` for a rank's flight-recorder dump, which writing to the recorder's pipe requests."""
    env, rank = each["env"], each["rank"]
    places = [env[name] for name in DUMP_FILE_VARIABLES if env.get(name)] or DEFAULT_DUMP_PREFIXES
    files = [f"{place}{rank}" for place in places]
    before = {path: changed(path) for path in files}
    pipe = f"{env[RECORDER_PIPE_VARIABLE]}{rank}.pipe"
    try:
        door = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        try:
            if not stat.S_ISFIFO(os.fstat(door).st_mode):
                return {"rank": rank, "why": "its pipe is no pipe"}
            os.write(door, b"1\n")
        finally:
            os.close(door)
    except OSError as error:
        return {"rank": rank, "why": f"its recorder does not listen ({error.strerror})"}
    why, begun, read_already = "its recorder wrote no dump", time.time(), False
    while time.time() < begun + RECORDER_TIMEOUT:
        time.sleep(0.2)
        if not read_already and time.time() > begun + PIPE_UNREAD_TIMEOUT:
            if has_unread(pipe):
                return {"rank": rank, "why": "nobody reads its recorder's pipe"}
            read_already = True
        for path in files:
            if changed(path) == before[path]:
                continue
            try:
                return dict(parse_text(path), rank=rank)
            except Exception as error:  # a dump that is not whole yet, or a damaged one, may raise anything
                why = f"its dump cannot be read ({str(error)[:200]})"
    return {"rank": rank, "why": why}


def has_unread(pipe: str) -> bool:
    """Whether the reader of a pipe has not yet read what was written to it."""
    try:
        door = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:  # a reader that opens it anew each time has read it, and another one is gone
        return False
    try:
        return any(fcntl.ioctl(door, termios.FIONREAD, bytes(4)))
    finally:
        os.close(door)


def changed(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


def load_dump(path: str) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """(groups, entries, version) of a dump; any exception if it is none."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > MAX_DUMP_BYTES:
            raise ValueError(f"it has more than {MAX_DUMP_BYTES >> 20} MiB")
        found = NoClasses(file).load()
    groups = {
        name[:200]: {
            "desc": short_text(each["desc"], 200),
            "ranks": [int(one) for one in RANK_TEXT.findall(each["ranks"])],
        }
        for name, each in found["pg_config"].items()
    }
    return groups, with_states(found["entries"]), short_text(found.get("version", ""), 20)


def with_states(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries of a dump; sends and receives of a batch get the state of the batch's own entry.

    The batch's entry follows them; with their own state they would seem never to end.
    """
    batches: dict[str, list[dict[str, Any]]] = {}
    kept = []
    for each in entries:
        name = short_text(each["process_group"][0], 200)
        if each.get("profiling_name") == "nccl:coalesced":
            for one in batches.pop(name, []):
                one["state"] = each["state"]
            continue
        if each.get("is_p2p"):
            batches.setdefault(name, []).append(each)
        kept.append(each)
    return kept


def read_times(path: str, seconds: float) -> dict[str, Any]:
    """The GPU time of each collective of the last `seconds`: [number, launched, duration], in microseconds.

    Launch times count from `since`, a time of this machine's clock. `queued`: at each poll of the watchdog, the time
    since the oldest running collective was launched. Groups in `direct`: the program calls the collectives itself, one
    after the other; in `cut`: only the last ones are listed; in `sends`: ranks send to each other, as pipeline stages
    do; in `gathers`: they gather parameters, which the computation has to wait for.
    """
    groups, entries, _ = load_dump(path)
    since = max((int(each["time_created_ns"]) for each in entries), default=0) - int(seconds * 1e9)
    times: dict[str, list[list[int]]] = {}
    seen: dict[str, list[tuple[float, int]]] = {}
    overlapping: set[str] = set()
    sending: set[str] = set()
    gathering: set[str] = set()
    for each in entries:
        took, launched = each.get("duration_ms"), int(each["time_created_ns"]) - since
        name = short_text(each["process_group"][0], 200)
        if launched < 0 or each.get("is_p2p"):
            sending.update([name] if launched >= 0 else [])
            continue
        if overlaps_computation(each.get("frames") or []):
            overlapping.add(name)
            gathering.update([name] if "gather" in short_text(each["profiling_name"], 100) else [])
        over = each.get("time_discovered_completed_ns")
        seen.setdefault(name, []).append((int(over) - since if over else math.inf, launched))
        if took is not None:
            row = [int(each["collective_seq_id"]), launched // 1000, round(1000 * float(took))]
            times.setdefault(name, []).append(row)
    ranks = max((len(each["ranks"]) for each in groups.values()), default=1)
    most = max(MAX_TIMES, min(MAX_TIMES_ALONE, MAX_TIMES_TOGETHER // max(1, ranks)))
    return {
        "groups": groups,
        "since": since // 1000,
        "times": {name: rows[-most:] for name, rows in times.items()},
        "cut": [name for name, rows in times.items() if len(rows) > most],
        "queued": {name: queue_ages(several) for name, several in seen.items()},
        "direct": [name for name in times if name not in overlapping],
        "sends": sorted(sending),
        "gathers": sorted(gathering),
    }


OVERLAPPING_CALL = re.compile(
    r"autograd|fsdp|zero|deepspeed|\bddp|nn/parallel|megatron/core/distributed|_inductor|_dynamo|hook|async|overlap|bucket"
)
"""Callers of collectives that the computation need not wait for. Threads of autograd have no Python frames."""
PART_OF_MODEL = re.compile(r"torch/(?:nn/modules/module|autograd/function)\.py")
"""The file that calls a module, or a function with its gradient: frames inside it belong to the model."""


def overlaps_computation(frames: list[dict[str, Any]]) -> bool:
    """Whether a collective overlaps the computation, by the stack that launched it, innermost frame first.

    Only frames inside the innermost module count: DDP around the model does not affect a tensor-parallel group in it.
    """
    for frame in frames:
        file = short_text(frame.get("filename"), 4096)
        if PART_OF_MODEL.search(file):
            return False
        if OVERLAPPING_CALL.search(file + " " + short_text(frame.get("name"), 200)):
            return True
    return not frames


def queue_ages(several: list[tuple[float, int]]) -> list[int]:
    """At each poll of the watchdog, the microseconds since the launch of the oldest running collective.

    `several`: for each collective, in nanoseconds, (time at which it was found to be over, launch time).
    """
    several.sort()
    polls: list[tuple[float, int]] = []  # when, and how many were over
    for at, (over, _) in enumerate(several):
        if over == math.inf:
            break
        if polls and over - polls[-1][0] < WATCHDOG_POLL_NS:
            polls[-1] = over, at + 1
        else:
            polls.append((over, at + 1))
    queued = []
    for when, over_then in polls[-MAX_WATCHDOG_POLLS:]:
        launched = several[over_then][1] if over_then < len(several) else when
        queued.append(int(max(0, when - launched) // 1000))
    return queued


def read_dump(path: str) -> dict[str, Any]:
    """The groups, and the last and unfinished operations of each group, in a dump."""
    groups, entries, version = load_dump(path)
    several: dict[str, list[dict[str, Any]]] = {}
    for place, each in enumerate(entries):
        known = several.setdefault(short_text(each["process_group"][0], 200), [])
        known.append(dict(short_operation(each), place=place, tensors=tensor_sizes_json(each)))
    dumps = []
    for known in several.values():
        undone = [each for each in known[:-MAX_LAST_OPERATIONS] if each["state"] != "completed"]
        dumps += undone[:MAX_UNDONE_OPERATIONS] + known[-MAX_LAST_OPERATIONS:]
    dumps.sort(key=lambda each: each["place"])
    kinds: dict[tuple[str, ...], int] = {}
    history = {name: list_history(known, kinds) for name, known in several.items()}
    operations = [{name: fact for name, fact in each.items() if name not in ("place", "tensors")} for each in dumps]
    return {"version": version, "groups": groups, "operations": operations, "kinds": list(kinds), "history": history}


def list_history(known: list[dict[str, Any]], kinds: dict[tuple[str, ...], int]) -> list[int]:
    """[number of a group's first listed collective, then the index in `kinds` of each collective; -1: unknown].

    A kind is (name, sizes, line, tensors). Ranks that disagree may go on for many collectives before they hang.
    """
    of: dict[int, int] = {}
    for each in known:
        kind = each["op"], each["sizes"], each["frame"], each["tensors"]
        if not each["p2p"] and (kind in kinds or len(kinds) < MAX_KINDS):
            of.setdefault(each["seq"], kinds.setdefault(kind, len(kinds)))
    if not of:
        return []
    last = max(of)
    first = max(min(of), last - MAX_HISTORY + 1)
    return [first, *(of.get(seq, -1) for seq in range(first, last + 1))]


RANK_TEXT = re.compile(r"\d{1,7}")


def short_operation(each: dict[str, Any]) -> dict[str, Any]:
    """The reported facts on one entry of a dump."""
    p2p, frames = bool(each.get("is_p2p")), each.get("frames") or [{}]
    own = [frame for frame in frames if "/torch/" not in short_text(frame.get("filename"), 4096)]
    frame = (own or frames)[0]
    over = each.get("retired") and short_text(each["profiling_name"], 100).startswith(
        "gloo:"
    )  # gloo sets no other state
    sizes = [
        "x".join(str(int(read_number)) for read_number in one[:8]) or "scalar"
        for one in each.get("input_sizes", [])[:4]
    ]
    return {
        "group": short_text(each["process_group"][0], 200),
        "seq": int(each["p2p_seq_id" if p2p else "collective_seq_id"]),
        "op": short_text(each["profiling_name"], 100),
        "state": "completed" if over else short_text(each["state"], 20),
        "sizes": ", ".join(sizes + [short_text(one, 20) for one in each.get("input_dtypes", [])[:1]]),
        "frame": f"{os.path.basename(short_text(frame['filename'], 4096))[:200]}:{int(frame['line'])}"
        if "line" in frame
        else "",
        "p2p": p2p,
    }


def tensor_sizes_json(each: dict[str, Any]) -> str:
    """The sizes and types of an entry's inputs and outputs as JSON; empty if they are too long."""
    sizes = [
        [[int(size) for size in one[:MAX_DIMENSIONS]] for one in each.get(name, [])[:MAX_TENSORS]]
        for name in ("input_sizes", "output_sizes")
    ]
    kinds = [
        [short_text(one, 20) for one in each.get(name, [])[:MAX_TENSORS]] for name in ("input_dtypes", "output_dtypes")
    ]
    text = json.dumps(sizes + kinds, separators=(",", ":"))
    return text if len(text) <= MAX_TENSORS else ""


def find_links() -> list[list[Any]]:
    """[address, smoothed round trip, least round trip] in µs of each peer with MIN_SENT_BYTES sent by TCP or more."""
    header = struct.Struct("=IHHII")
    query = struct.pack("=BBBxI48x", socket.AF_INET, socket.IPPROTO_TCP, 1 << (TCP_INFO - 1), 1 << ESTABLISHED)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as door:
        door.settimeout(3)
        door.sendall(header.pack(header.size + len(query), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + query)
        found: dict[str, list[list[Any]]] = {}
        while True:
            received, at = door.recv(1 << 18), 0
            while at + header.size <= len(received):
                length, kind = header.unpack_from(received, at)[:2]
                if kind != SOCK_DIAG_BY_FAMILY:
                    return [sorted(several)[len(several) // 2] for several in list(found.values())[:MAX_LINKS]]
                read_link(received[at + header.size : at + length], found)
                at += (length + 3) & ~3


def read_link(message: bytes, node_fields: dict[str, list[list[Any]]]) -> None:
    """Add the kernel's figures of one TCP connection to those of its peer."""
    peer, at = socket.inet_ntop(socket.AF_INET, message[24:28]), 72
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if kind == TCP_INFO and length >= 4 + 152:
            trip, sent, least = (
                struct.unpack_from(form, message, at + 4 + place)[0]
                for form, place in (("=I", 68), ("=Q", 120), ("=I", 148))
            )
            if sent >= MIN_SENT_BYTES:
                node_fields.setdefault(peer, []).append([peer, trip, least])
        at += max(4, (length + 3) & ~3)


def watch_links(find: Callable[[], list[list[Any]]] = find_links, pause: float = 0.15) -> list[list[Any]]:
    """The shortest round trip to each peer on another machine, measured several times, `pause` seconds apart."""
    best: dict[str, list[Any]] = {}
    for at in range(LINK_LOOKS):
        time.sleep(pause * bool(at))
        for each in find():
            if not each[0].startswith("127.") and (each[0] not in best or each[1] < best[each[0]][1]):
                best[each[0]] = each
    return list(best.values())[:MAX_LINKS]


TCP_INFO, ESTABLISHED, SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST_DUMP = 2, 1, 4, 20, 0x301
"""Linux constants for listing the established TCP connections with their figures by netlink."""
MIN_SENT_BYTES = 1 << 20
"""Minimum bytes sent by a connection that carries data."""
MAX_LINKS = 256
LINK_LOOKS = 6
"""Number of measurements: of healthy ranks on one machine, one in ten shows four times the usual round trip."""


def read_boot_id() -> str:
    """The machine's boot id, which identifies its clock; empty if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()[:100]
    except OSError:
        return ""


def print_times(seconds: float) -> None:
    """Print how long the last collectives of each rank took, and the state of the pod's links."""
    every = [each for each in working_processes(read_all_processes()) if each["rank"] is not None]
    answer: dict[str, Any] = {
        "ranks": [
            {"rank": each["rank"], "why": "it has no pipe of its flight recorder"}
            for each in every
            if not each["env"].get(RECORDER_PIPE_VARIABLE)
        ]
    }
    listening = [each for each in every if each["env"].get(RECORDER_PIPE_VARIABLE)]
    with ThreadPoolExecutor(1 + len(listening)) as pool:
        links = pool.submit(watch_links)
        answer["ranks"] += pool.map(lambda each: recorder(each, lambda path: read_times(path, seconds)), listening)
    try:
        answer["links"] = links.result()
    except OSError as error:
        answer["no_links"] = str(error)
    answer["rdma"] = read_rdma_state()
    answer["clock"] = read_boot_id()
    json.dump(answer, sys.stdout)


def print_stacks(ranks: set[int]) -> None:
    found = [each for each in working_processes(read_all_processes()) if each["rank"] in ranks and not each["program"]]
    tool = find_py_spy(found)
    answers = []
    with ThreadPoolExecutor(MAX_CONCURRENT_DUMPS) as pool:
        dumps = pool.map(lambda each: dump_stacks(tool, each), found if tool else [])
        answers = [{"pid": each["pid"], "dump": dump, "error": error} for each, (dump, error) in zip(found, dumps)]
    json.dump({"processes": answers}, sys.stdout)


def print_samples(seconds: float, ranks: set[int]) -> None:
    """Print the stacks of the main threads of these ranks, sampled by py-spy for `seconds`.

    The processes are not paused: py-spy would pause each of a training's hundred threads in turn for each sample.
    """
    found = [each for each in working_processes(read_all_processes()) if each["rank"] in ranks and not each["program"]]
    tool = find_py_spy(found)
    answers: list[dict[str, Any]] = [{"rank": each["rank"], "why": "there is no py-spy in its pod"} for each in found]
    if tool:
        with ThreadPoolExecutor(1 + len(found)) as pool:
            answers = list(pool.map(lambda each: sample_main_thread(tool, each, seconds), found))
    json.dump({"ranks": answers}, sys.stdout)


def sample_main_thread(tool_path: str, process: dict[str, Any], seconds: float) -> dict[str, Any]:
    """By call stack, how often the main thread of a process was in it during `seconds`."""
    import tempfile  # which most questions need not load

    handle, path = tempfile.mkstemp(prefix="a4-samples.")
    os.close(handle)
    try:
        done = subprocess.run(
            [
                tool_path,
                "record",
                "--nonblocking",
                "--idle",
                "--threads",
                "--format",
                "raw",
                "--rate",
                str(max(1, min(SAMPLES_A_SECOND, round(MOST_SAMPLES / seconds)))),
                "--duration",
                str(max(1, round(seconds))),
                "--output",
                path,
                "--pid",
                str(process["pid"]),
            ],
            capture_output=True,
            timeout=seconds + PY_SPY_TIMEOUT,
            check=False,
        )
        if done.returncode:
            messages = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = next((line for line in messages if line.startswith("Error: ")), (messages or ["py-spy failed"])[0])
            return {"rank": process["rank"], "why": why[:200]}
        lines = read_file(path, MAX_SAMPLE_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, subprocess.SubprocessError) as error:
        return {"rank": process["rank"], "why": str(error)[:200]}
    finally:
        os.unlink(path)
    stacks = []
    for thread, _, calls in (line.partition(";") for line in lines):
        calls, _, count = calls.rpartition(" ")
        if thread.endswith(": MainThread") and count.isdigit():
            stacks.append([int(count), ";".join(calls.split(";")[-MAX_CALLS:])])
    return {"rank": process["rank"], "stacks": sorted(stacks, reverse=True)[:MAX_STACKS]}


SAMPLES_A_SECOND, MOST_SAMPLES = 20, 300
MAX_SAMPLE_BYTES = 16 << 20
"""Maximum bytes of py-spy's output that are read."""
MAX_STACKS, MAX_CALLS = 400, 60


def main() -> None:
    """Print all but the stacks of ranks as one line of JSON; with `all-stacks` also these, with `no-recorder` no flight
    recorders.

    `ras-only` prints NCCL's status instead, `times SECONDS` the times of collectives, `stacks RANK,RANK` the stacks of
    these ranks, `samples SECONDS RANK,RANK` samples of their stacks. py-spy, which pauses a process for a moment to
    print its stacks, is run on no other processes.
    """
    if sys.argv[1:] == ["ras-only"]:
        json.dump({"processes": [], "ras": query_ras()}, sys.stdout)
        return
    if sys.argv[1:2] == ["times"]:
        print_times(float(sys.argv[2]))
        return
    if sys.argv[1:2] == ["samples"]:
        print_samples(float(sys.argv[2]), {int(number) for number in RANK_TEXT.findall(sys.argv[3])})
        return
    if sys.argv[1:2] == ["stacks"]:
        print_stacks({int(number) for number in RANK_TEXT.findall(sys.argv[2])})
        return
    every = read_all_processes()
    found, starters = working_processes(every), launcher_processes(every)
    tool = find_py_spy(found)
    listening = [each for each in found if each["rank"] is not None and each["env"].get(RECORDER_PIPE_VARIABLE)]
    listening = [] if "no-recorder" in sys.argv else listening
    with ThreadPoolExecutor(MAX_CONCURRENT_DUMPS + 1 + len(listening)) as pool:
        records = [pool.submit(recorder, each, read_dump) for each in listening]
        meeting = pool.submit(check_master, found)
        pythons = [each for each in found if not each["program"]]
        spared = [each for each in pythons if tool and each["rank"] is not None and "all-stacks" not in sys.argv]
        pythons = [each for each in pythons if each not in spared]
        dumps = [pool.submit(dump_stacks, tool, each) for each in pythons] if tool else []
        for each, job in zip(pythons, dumps):
            each["dump"], each["error"] = job.result()
        answer = {"py_spy": tool, "master": meeting.result(), "rdma": read_rdma_state()}
        answer["recorder"] = [job.result() for job in records]
    for each in spared:
        each["asked"] = False
    for each in found + starters:
        each.pop("env", None)
        each.pop("argv", None)
    answer.update(processes=found, launchers=starters, gdb="" if "A4_PROC" in os.environ else shutil.which("gdb") or "")
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
