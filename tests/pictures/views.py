"""What there is to be seen: every page, every tab of a job and the dialogs that matter, and how each is reached."""

from dataclasses import dataclass

from console.metrics.diagnosis import diagnose_slow_ranks
from rankscope import LateRank, SlowReport
from tests.pictures.frozen import MOMENT, QUICK, STILL, Still

HOMES = {"job": "jobs", "doctor": "jobs", "pod": "pods", "log": "pods", "object_yaml": "pods",
         "run": "runs"}  # fmt: skip
"""The main page from which each page is usually opened, where that is not the first one."""


@dataclass(frozen=True)
class View:
    """`page`: a main page, or a page and what it is about; then the keys that are pressed there."""

    name: str
    page: tuple[str, ...]
    keys: tuple[str, ...] = ()
    words: str = ""
    """What stands on it once it is complete."""
    then: tuple[str, ...] = ()
    """Keys pressed once those words stand there, each after the screen has come to rest."""
    at_last: str = ""
    """What stands on it after those."""
    asks: bool = False
    """Whether it asks programs in containers, which takes time in a cluster that stands still."""
    of_here: bool = False
    """Whether it shows something of the machine on which it is drawn: no picture of it is kept."""

    once: bool = False
    """Whether opening it changes the cluster."""
    late: tuple[LateRank, ...] = ()
    """The ranks of its job that NCCL names as slow; of no other view are there any."""

    async def open(self, still: Still, *, complete: bool = True) -> None:
        """Open it; what the last key asks for may still be under way then. `complete`: once its words stand on it."""
        await still.home()
        still.cluster.clock.speed = QUICK if self.asks else STILL
        page, *about = self.page
        session = still.app.session
        session.inspector.slow_reports.clear()
        session.diagnoses._latest.clear()
        if self.late:
            report = SlowReport(about[1], "2.28.9", "json", 64, 900, 10.0, 90, self.late, 0.021, at=MOMENT - 40)
            session.inspector.slow_reports[about[0], about[1]] = report
            (found,) = diagnose_slow_ranks(report, session.fleet.jobsets[about[0], about[1]].uid)
            session.diagnoses._latest[found.uid, found.kind] = found
        if page in HOMES:
            await still.app.switch_mode(HOMES[page])
        if page in still.app.MODES:
            await still.app.switch_mode(page)
        else:
            still.app.open_page(page, *(pod_of(still, each) for each in about))
        await still.pilot.pause()
        await still.press(*self.keys)
        if complete:
            await still.until(f"{self.words!r} on {self.name}", lambda: self.words in still.text())
        for key in self.then:
            await still.settled()
            await still.press(key)
        if complete and self.at_last:
            await still.until(f"{self.at_last!r} on {self.name}", lambda: self.at_last in still.text())


def pod_of(still: Still, name: str) -> str:
    """The name of the pod of which "job/0" is the beginning: its end is another one in each scene."""
    job, slash, rank = name.partition("/")
    if not slash or not rank.isdigit():
        return name
    return next(pod for _, pod in still.app.fleet.pods if pod.startswith(f"{job}-workload-0-{rank}-"))


def job(name: str, job: str, tab: str, words: str = "") -> View:
    return View(name, ("job", "default", job, tab), words=words)


LATE = tuple(
    LateRank(rank, f"10.0.0.{rank // 8}", 1201, rank % 8, share, share - 0.017, share + 0.016, slow=True, cause=cause,
             pod_index=rank // 8)
    for rank, share, cause in ((5, 0.124, "GPU"), (7, 0.052, "GPU"), (41, 0.068, "host"))
)  # fmt: skip
LLAMA, POOL = ("default", "llama-70b/0"), "a4-highgpu-8g-a4-pool"
VIEWS = (
    View("fleet", ("fleet",)),
    View("queues", ("queues",)),
    View("jobs", ("jobs",), ("g", *("down",) * 3), words="stalled"),
    View("pods", ("pods",)),
    View("launch", ("launch",), words="GPUs"),
    View("runs-none", ("runs",)),
    View("tunnels", ("tunnels",)),
    View("pool", ("pool", POOL), words="Google: running"),
    View("node", ("node", f"gke-practice-{POOL}-79c66879-0013")),
    View("pod", ("pod", *LLAMA)),
    View("pod-log", ("log", *LLAMA)),
    job("job-pods", "llama-70b", "pods", "loss, steps 1 to 4,113"),
    View("job-pods-slow", ("job", "default", "llama-70b", "pods"), words="the others wait", late=LATE),
    job("job-log", "llama-70b", "log"),
    job("job-nccl", "nccl-0412", "nccl"),
    job("job-nccl-done", "nccl-0411", "nccl"),
    job("job-training", "llama-70b", "training", "step 4,113 of"),
    job("job-training-nan", "dpo-a3b", "training", "step 124 of"),
    job("job-gpus", "llama-70b", "gpus"),
    job("job-events", "sft-a3b", "events"),
    job("job-yaml", "llama-70b", "yaml"),
    job("job-pending", "eval-32", "pods"),
    job("job-failed", "sft-a3b", "pods", words="it 27/4000"),
    View("yaml", ("object_yaml", "Pod", *LLAMA)),
    View("doctor", ("doctor", "default", "llama-70b", "0"), of_here=True),
    View("alarms", ("alarms",), words="NaN"),
    View("preflight", ("preflight",), words="27 ok"),
    View("images", ("images",), words="25.06-py3"),
    View("storage", ("storage",), words="practice-archive-eu"),
    View("nodepools", ("nodepools",), words="a4-flex"),
    View("help", ("jobs",), words="stalled", then=("question_mark",)),
    View("more", ("jobs",), words="stalled", then=("0",)),
    View("palette", ("jobs",), words="stalled", then=("colon", *"llama")),
    View("namespace", ("jobs",), words="stalled", then=("N",)),
    View("stop", ("jobs",), words="stalled", then=("x",)),
    View("launch-look", ("launch",), words="GPUs", then=("ctrl+s",)),
    View("launch-yaml", ("launch",), words="GPUs", then=("f3",)),
    View("launch-paste", ("launch",), words="GPUs", then=("f6",)),
    View("forward", ("pod", *LLAMA), ("f",)),
    View("copy-from", ("job", *LLAMA[:1], "llama-70b"), ("u",)),
    View("run-in-pods", ("job", *LLAMA[:1], "llama-70b"), ("exclamation_mark",)),
    View("editor", ("job", *LLAMA[:1], "llama-70b"), ("v",), of_here=True),
    View("resize", ("pool", POOL), words="Google: running", then=("R",)),
    View("cordon", ("pool", POOL), ("K",)),
    View(
        "job-hang",
        ("job", "team-b", "rag-eval", "hang"),
        words="Look into the pods of rag-eval?",
        then=("y",),
        at_last="7 others wait",
        asks=True,
    ),
    View("launched", ("launch",), words="GPUs", then=("ctrl+s", "enter"), once=True),
    View("runs", ("runs",), words="you-nccl-test"),
    View("run", ("run", "1")),
)
