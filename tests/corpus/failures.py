"""Failures and other reports that people posted: `more/f*`, and those among the tables of nccl-tests."""

from pathlib import Path
from typing import NamedTuple

from tests.corpus.verdict import Case, judge
from trainlog import LogResults


class Log(NamedTuple):
    """What stands in one log."""

    failures: list[tuple[str, int | None, str]]
    """Kind, rank and host of each failure."""
    words: tuple[str, ...] = ()
    """What their sentences say."""
    ended: str = ""
    steps: list[int] = []  # noqa: RUF012  # a default of a tuple's field; nobody writes to it
    """Numbers of the steps of training."""
    depths: list[int] = []  # noqa: RUF012
    """How deep each score of lm-eval stands."""


# beginning of the file's name: what it holds
LOGS = {
    "f01": Log([("nccl-timeout", 0, ""), ("nccl-timeout", 7, "")], ("ALLREDUCE", "SeqNum 96120"), steps=[32040]),
    "f03": Log([("nccl-timeout", 3, ""), ("nccl-timeout", 2, ""), ("peer", None, "")], ("ALLREDUCE", "SeqNum 1132079")),
    "f05": Log(
        [("torchrun", 1, "notebook-29219ac6-fe8a-414b-ae0b-745c049baa37.notebook-29219ac6-fe8a-414b-ae0b-745c049baa37-"
          "distributed.default.svc.cluster.local")],
        ("exit code 1",), "torchrun: rank 1 failed, exit code 1; which rank failed first is not reported.",
    ),
    "f07": Log([("cuda-out-of-memory", None, "")], ("GPU 0", "1.70 GiB"), steps=[3237]),
    "f09": Log(
        [("slurm", None, ""), ("time-limit", None, "node-7")], ("494583",),
        "Slurm: job 494583 was cancelled due to time limit.",
    ),
    "f11": Log([("xid", None, "")] * 5, ("Xid 149 on 0000:dc:00", "Xid 45 on 0000:97:00")),
    "f13": Log([("xid", None, "")], ("Xid 79 on 0000:44:00",)),
    "f15": Log([], depths=[0, 0, 0, 0, 0, 1, 2]),
    "f17": Log([("nccl-warning", None, "job-1111-2222-2")], ("AllGather : invalid root 0",)),
    "f19": Log(
        [("nccl-warning", None, "server1"), ("nccl-test", None, ""), ("mpirun", None, "")], ("unhandled system error",),
        "mpirun: a process failed: Primary job terminated.",
    ),
    "n13": Log(
        [*(("nccl-test", None, f"HCA-{host}") for host in (14, 28, 111, 19)), ("mpirun", 251, "")],
        ("unhandled cuda error", "exit code 3"), "mpirun: rank 251 failed first, exit code 3.",
    ),
}  # fmt: skip


def cases(folder: Path) -> list[Case]:
    """A case for each log of the table above, or that is there without being in it."""
    every = (path for path in sorted((folder / "more").glob("*.txt")) if path.name[0] == "f" or path.name[:3] in LOGS)
    paths = {path.name.partition("-")[0]: path for path in every}
    return [_case(number, paths.get(number), LOGS.get(number)) for number in sorted({*paths, *LOGS})]


def _case(number: str, path: Path | None, log: Log | None) -> Case:
    if path is None or log is None:
        return judge(number, {"file": "there, and in the table of this module"}, {}, understood=False)
    reading = LogResults()
    reading.feed(path.read_bytes())
    reading.close()
    said = " ".join(each.text for each in reading.failures)
    read: dict[str, object] = {
        "failures": [(each.kind, each.rank, each.host) for each in reading.failures],
        "words": tuple(word for word in log.words if word in said),
        "ended": reading.ended,
        "steps": [step.step for run in reading.training for step in run.steps if step.step is not None],
        "depths": [score.depth for score in reading.scores],
    }
    return judge(path.name, log._asdict(), read, understood=reading.has_results)
