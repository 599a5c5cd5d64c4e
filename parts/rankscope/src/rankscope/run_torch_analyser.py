"""A script that runs inside a pod: runs PyTorch's own flight recorder analyser on the collectives of a job's ranks.

PyTorch's wheels have the analyser since 2.10, as torch.distributed.flight_recorder. Earlier only the sources have it,
as tools.flight_recorder: NVIDIA's images keep them in TORCH_SOURCES. The interpreter of a training process imports it
in another process with the lowest priority. Each process group is analysed by itself, because a group that the analyser
cannot handle would end the analysis of all.

Its arguments are the lengths of this script and of standard input, which the API server does not always close. Standard
input has this script again, then JSON, where collectives are indexes into `kinds`, and those not in `states` are
completed:

    {"version": "2.10", "kinds": [["nccl:all_reduce", [[[512]], [[512]], ["Float"], ["Float"]]]],
     "groups": [{"name": "1", "desc": "TENSOR_PARALLEL", "ranks": [0, 1],
                 "entries": {"0": {"first": 40, "calls": [0, 0], "states": {"41": "started"}}}}]}

It prints one line of JSON, with the first collective of each group in which ranks are missing or differ from others:

    {"torch": "2.11.0", "found": [{"group": 0, "seq": 41, "op": "nccl:all_reduce", "missing": [1], "culprits": {}}],
     "failed": {"1": "why"}, "log": ""}

The script needs only Python 3.7 or newer, and changes nothing.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from importlib import import_module
from typing import Any, Dict, List, Tuple

PROC_FOLDER = os.environ.get("A4_PROC", "/proc")
TORCH_SOURCES = os.environ.get("A4_TORCH_SOURCES", "/opt/pytorch/pytorch")
ANALYSIS_TIMEOUT = 60
"""Seconds for importing PyTorch and for the analysis."""
ANALYSER_MODULES = ("torch.distributed.flight_recorder.components", "tools.flight_recorder.components")
MAX_LOG_BYTES, MAX_FINDING = 64 << 10, 300
"""Maximum characters of the analyser's log, and of one of its reasons."""
EXIT_NO_ANALYSER = 44
RUN_ANALYSER = "import sys; exec(compile(sys.stdin.buffer.read(int(sys.argv.pop(1))), 'analyser', 'exec'))"


def find_pythons() -> List[str]:
    """The Python interpreters that may have PyTorch: those of the training processes first."""
    found = []
    for pid in sorted(int(name) for name in os.listdir(PROC_FOLDER) if name.isdigit()):
        try:
            with open(os.path.join(PROC_FOLDER, str(pid), "cmdline"), "rb") as file:
                program = os.fsdecode(file.read(4096).split(b"\0")[0])
            with open(os.path.join(PROC_FOLDER, str(pid), "environ"), "rb") as file:
                env = dict(part.split("=", 1) for part in os.fsdecode(file.read(1 << 20)).split("\0") if "=" in part)
        except OSError:
            continue
        if "python" in os.path.basename(program) and "LOCAL_RANK" in env:
            found.append(shutil.which(program, path=env.get("PATH")) or "")
    return [each for each in dict.fromkeys([*found, shutil.which("python3") or ""]) if each]


def run_child(python: str, length: int, data: bytes) -> Tuple[int, str, str]:
    """(exit code, output, last line of errors) of the analysis, run in another interpreter."""
    names = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "A4_TORCH_SOURCES")
    env = {name: os.environ[name] for name in names if name in os.environ}
    env.update(CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    try:
        done = subprocess.run(
            [python, "-Ic", RUN_ANALYSER, str(length), "analyse"],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=ANALYSIS_TIMEOUT,
            env=env,
            preexec_fn=lambda: os.nice(19),
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, "", "it did not answer within %d s" % ANALYSIS_TIMEOUT
    except OSError as error:
        return EXIT_NO_ANALYSER, "", error.strerror or str(error)
    parts = [line.strip() for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return (
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        parts[-1][:MAX_FINDING] if parts else "it ended silently",
    )


def load_analyser() -> Tuple[Any, Any]:
    """The analyser's function and its options; exits if this PyTorch's, as early ones, returns no findings."""
    import_module("torch")
    sys.path.insert(0, TORCH_SOURCES)
    for name in ANALYSER_MODULES:
        try:
            build_db = import_module(name + ".builder").build_db
            if hasattr(import_module(name + ".types").Collective, "missing_ranks"):
                options = import_module(name + ".config_manager").JobConfig().parser.parse_known_args(["none"])[0]
                options.allow_incomplete_ranks, options.mismatch_cap = True, 1000000
                return build_db, options
        except ImportError:
            continue
    sys.exit(EXIT_NO_ANALYSER)


def run_analyser(asked: Dict[str, Any]) -> Dict[str, Any]:
    build_db, args = load_analyser()
    log = MessageCollector()
    own = logging.getLogger("Flight Recorder")
    own.handlers = [log]
    own.setLevel(logging.INFO)
    found, failed = [], {}
    for place, group in enumerate(asked["groups"]):
        log.note("group %s %s of ranks %s" % (group["name"], group["desc"], group["ranks"]))
        try:
            database = build_db(expand_dumps(group, asked["kinds"], asked["version"]), args, asked["version"])
            found += first_trouble(place, database.collectives)
        except Exception as error:  # an assertion, or whatever else a version of it meets
            failed[str(place)] = (str(error) or type(error).__name__)[:MAX_FINDING]
    torch = import_module("torch").__version__
    return {"torch": str(torch)[:40], "found": found, "failed": failed, "log": log.text}


class MessageCollector(logging.Handler):
    """A log handler that stores the first messages of the analyser."""

    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.note(record.getMessage())

    def note(self, text: str) -> None:
        self.text += (text + "\n")[: MAX_LOG_BYTES - len(self.text)]


def expand_dumps(group: Dict[str, Any], kinds: List[Any], version: str) -> Dict[str, Any]:
    """By rank of a group the dump that the analyser expects, expanded from the short form of its collectives."""
    config = {group["name"]: {"desc": group["desc"], "ranks": str(group["ranks"])}}
    return {
        "rank_" + rank: {
            "host_name": "rank" + rank,
            "rank": int(rank),
            "version": version,
            "pg_config": config,
            "entries": [
                dump_entry(group, seq, kinds[kind], entries["states"].get(str(seq), "completed"))
                for seq, kind in enumerate(entries["calls"], entries["first"])
            ],
        }
        for rank, entries in group["entries"].items()
    }


def dump_entry(group: Dict[str, Any], seq: int, kind: Any, state: str) -> Dict[str, Any]:
    name, (inputs, outputs, input_types, output_types) = kind
    return {
        "record_id": seq, "pg_id": 0, "process_group": (group["name"], group["desc"]), "collective_seq_id": seq,
        "p2p_seq_id": 0, "op_id": seq, "profiling_name": name, "time_created_ns": 0, "input_sizes": inputs,
        "output_sizes": outputs, "input_dtypes": input_types, "output_dtypes": output_types, "state": state,
        "is_p2p": False, "retired": state == "completed", "frames": [],
    }  # fmt: skip


def first_trouble(place: int, collectives: List[Any]) -> List[Dict[str, Any]]:
    """The first of a group's collectives with missing or different ranks, as a list of one item; empty without any."""
    for each in collectives:
        missing = sorted(getattr(each, "missing_ranks", None) or ())
        others = getattr(each, "mismatch_collectives", None) or {}
        culprits = {str(rank): str(other.type_of_mismatch)[:MAX_FINDING] for rank, other in sorted(others.items())}
        if missing or culprits:
            return [
                {
                    "group": place,
                    "seq": each.collective_seq_id,
                    "op": str(each.collective_name)[:100],
                    "missing": missing,
                    "culprits": culprits,
                }
            ]
    return []


def main() -> None:
    if sys.argv[1:2] == ["analyse"]:
        json.dump(run_analyser(json.loads(sys.stdin.buffer.read().decode())), sys.stdout)
        return
    length, data = int(sys.argv[1]), sys.stdin.buffer.read(int(sys.argv[2]))
    why = "there is no other Python in the pod"
    for python in find_pythons():
        code, output, why = run_child(python, length, data)
        if not code:
            print(output)
            return
        if code == EXIT_NO_ANALYSER:
            why = "PyTorch of this image has no flight recorder analyser that tells its findings"
        elif "No module named 'torch'" in why:
            why = "no Python in the pod has PyTorch"
    json.dump({"why": why}, sys.stdout)


if __name__ == "__main__":
    main()
