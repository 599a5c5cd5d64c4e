"""Logs: what training programs print, failures, and dumps of py-spy."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.corpus.verdict import Case, Verdict, judge
from trainlog import LogResults

Steps = list[tuple[int | None, float | None]]
# beginning of the file's name: step and loss of each report, and figures of the last step; None: is not there
TRAINING: dict[str, tuple[Steps, dict[str, float | None]]] = {
    "t01": ([(3100, 0.6121), (3200, 0.6088)], {"total": 12000, "lr": 0.00002}),
    "t03": ([(10, 2.5), (11, 2.49)], {"lr": 1e-4}),
    "t05": ([(512, 2.341), (513, 2.339)], {"total": 10000, "step_time_s": 1.0, "lr": 1e-4}),
    "t07": ([(32, 0.24161853), (33, 0.26101392), (34, 0.23892299)], {"total": 94}),
    "t09": ([(100, 2.3451), (200, 2.2451), (300, math.nan)], {"lr": 1e-5}),
    "t11": ([(2140, 5.485776), (2150, 5.55014), (2160, 5.376927)], {"step_time_s": 0.621466, "lr": 9e-5}),
    "t13": ([(110, 14.545130157470703), (120, 14.528183364868164)], {"step_time_s": 3.3192874431610107}),
    "t15": ([(1700, 0.8262), (1750, 0.9642)], {"step_time_s": 0.3, "grad_norm": 4.6064, "lr": 0.005}),
    "t16": ([(2, 1.78e5), (3, 1.41e5)], {"total": 5005}),
    "t17": ([(1, 1.3421), (2, 1.3011)], {"total": 4406, "lr": 1e-5}),
    "t19": ([(0, 0.0131), (1, 0.0121)], {"grad_norm": 0.1101, "step_time_s": 131.09, "tokens_per_s": 4801.0}),
    "t20": ([(200, 6.700840377807617), (210, 6.600840377807617)], {}),
    "t21": ([(3100, 4.3671), (3110, 4.3577)], {"total": 3135}),
    "t22": ([(8, 18.4), (9, 17.9)], {}),
    "t23": ([(41, -0.0021), (42, -0.0031), (43, -0.0041)], {"grad_norm": 0.23, "step_time_s": 31.6}),
    "t25": ([(1000, 3.2101), (1010, 3.2011)], {"total": 20000, "step_time_s": 0.513, "tokens_per_s": 1203111.0}),
    "t27": ([(8, 11.03), (9, 10.93)], {"total": 100, "step_time_s": 8.4, "tflops_per_gpu": 1022.0}),
}
ALLOWED: dict[str, dict[str, tuple[float | None, ...]]] = {
    "t01": {"step_time_s": (1 / 0.79, None)},
    "t03": {"step_time_s": (64.0, None)},
    "t13": {"lr": (1.0321901727187828e-06,)},
}
"""Figures of the last step that may be read in several ways."""
# beginning of the file's name: rank of each failure (None: not told), words of their sentences, their hints and the end
FAILURES: dict[str, tuple[set[int | None], tuple[str, ...]]] = {
    "f01": ({None, 1}, ("ECC", "rain the node")),
    "f03": ({11}, ("NCCL timeout",)),
    "f05": ({None}, ("task 37", "ts own log")),
    "f06": ({None}, ("task 1", "task 6", "task 3", "barrier")),
    "f09": ({None}, ("task 11", "task 4")),
    "f10": ({None}, ("ncclCommInitRankConfig", "10.0.0.9")),
    "f11": ({None}, ("10.0.0.7:29500", "60s")),
    "f13": ({5}, ("rank 0", "store")),
    "f14": ({3}, ("watchdog",)),
    "f16": ({0, 7}, ("rank 7",)),
    "f17": ({None}, ("memory of the machine", "fewer")),
    "f19": ({None}, ("driver", "library", "estart the node")),
    "f20": ({None}, ("driver", "12020", "too old")),
    "f21": ({None}, ("driver", "library", "estart the node")),
    "f24": ({None}, ("SIGTERM",)),
    "f26": ({None}, ("SIGKILL",)),
    "f27": ({4}, ("Errno 107", "gcsfuse")),
    "f29": ({None}, ("SIGKILL",)),
    "f31": ({None}, ("No space left on device",)),
    "f33": ({None}, ("429", "Too Many Requests")),
    "f34": ({None}, ("64.00 GiB",)),
    "f35": ({None}, ("Stale file handle", "iter_0000500", "ount it again")),
    "f36": ({None}, ("Errno 107", "gcsfuse")),
}
NOT_TOLD = {"f17": "CUDA out of memory", "f20": "RuntimeError: The"}
"""Words that must not be there."""
# beginning of the file's name: process, threads and whether it could not be dumped; a call that is named
STACKS: dict[str, tuple[list[tuple[int, int, bool]], str]] = {
    "s01": ([(55, 1, False)], "all_gather_into_tensor"),
    "s03": ([(101, 1, False), (102, 0, True), (103, 0, True), (104, 1, False)], "all_reduce"),
    "s05": ([(4211, 4, False)], "cuEventSynchronize"),
}


def training(folder: Path) -> list[Case]:
    return [_training_case(path, TRAINING.get(path.name[:3])) for path in sorted(folder.glob("t*"))]


def _training_case(path: Path, known: tuple[Steps, dict[str, float | None]] | None) -> Case:
    found = read(path)
    steps = [step for run in found.training for step in run.steps]
    if known is None:
        return _not_in_table(path)
    last = known[1]
    wanted: dict[str, Any] = {"steps": known[0], "unreadable": {}} | last
    seen: dict[str, Any] = {"steps": [(step.step, step.loss) for step in steps], "unreadable": found.unreadable}
    seen |= {name: getattr(steps[-1], name) if steps else None for name in (*last, *ALLOWED.get(path.name[:3], ()))}
    for name, several in ALLOWED.get(path.name[:3], {}).items():
        wanted[name] = seen[name] if not steps or seen[name] in several else several[0]
    return judge(path.name, wanted, seen, understood=found.has_results)


def failures(folder: Path) -> list[Case]:
    return [_failure_case(path, FAILURES.get(path.name[:3])) for path in sorted(folder.glob("f*"))]


def _failure_case(path: Path, known: tuple[set[int | None], tuple[str, ...]] | None) -> Case:
    if known is None:
        return _not_in_table(path)
    found = read(path)
    text = " ".join([*(f"{each.sentence} {each.hint}" for each in found.failures), found.ended])
    foreign = NOT_TOLD.get(path.name[:3], "")
    if foreign and foreign in text:
        return Case(path.name, Verdict.WRONG, text[:200])
    missing = [word for word in known[1] if word not in text]
    ranks = {each.rank for each in found.failures}
    if ranks - known[0] - {None}:
        return Case(path.name, Verdict.WRONG, f"ranks {ranks}: {text[:200]}")
    if missing or not found.failures or ranks != known[0]:
        verdict = Verdict.PARTLY if found.failures else Verdict.NOTHING
        return Case(path.name, verdict, f"without {missing}, ranks {ranks}: {text[:300]}")
    return Case(path.name, Verdict.RIGHT)


def stacks(folder: Path) -> list[Case]:
    return [_stack_case(path, STACKS.get(path.name[:3])) for path in sorted(folder.glob("s*"))]


def _stack_case(path: Path, known: tuple[list[tuple[int, int, bool]], str] | None) -> Case:
    if known is None:
        return _not_in_table(path)
    found = read(path).stacks
    wanted: Mapping[str, object] = {"processes": known[0], "call": True, "order": True}
    frames = {frame.function for each in found for thread in each.threads for frame in thread.frames}
    states = [tuple(thread.state) for each in found for thread in each.threads]
    seen = {
        "processes": [(each.pid, len(each.threads), bool(each.error)) for each in found],
        "call": any(known[1] in function for function in frames),
        "order": states == [tuple(sorted(state)) for state in states],
    }
    return judge(path.name, wanted, seen, understood=bool(found))


def _not_in_table(path: Path) -> Case:
    return Case(path.name, Verdict.NOTHING, "not in the table of this module")


def read(path: Path) -> LogResults:
    found = LogResults()
    found.feed(path.read_bytes())
    found.close()
    return found
