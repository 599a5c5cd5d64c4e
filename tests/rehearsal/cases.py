"""What is rehearsed: every recipe on one, two and four nodes, and what may go wrong with each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tests.chart.plans import CATALOGUE
from tests.launchers import documents
from tests.rehearsal.pods import DOMAIN

NODES = (1, 2, 4)
SUCCEEDS, FAILS, STAYS = "succeeds", "fails", "stays"
FIRST, SECOND = (f"anna-workload-0-{index}.{DOMAIN}" for index in (0, 1))
MPI = ("nccl-all-reduce", "connectivity")
SHARED = tuple(
    recipe.id
    for recipe in CATALOGUE.recipes()
    if recipe.id.startswith(("qwen3-", "swift-")) and recipe.id != "own-script"
)
"""Recipes with a workspace on shared storage."""
MAIN = {
    "nccl-all-reduce": ("all-reduce", "all_reduce_perf"), "nccl-one-pod": ("all-reduce", "all_reduce_perf"),
    "ddp-smoke": ("ddp", "torchrun"), "qwen3-download": ("download", "huggingface-cli"),
    "qwen3-to-mcore": ("convert", "run_8xH20.sh"), "qwen3-to-hf": ("convert", "run_8xH20.sh"),
    "qwen3-next-to-mcore": ("convert", "run_8xH20.sh"), "swift-export": ("export", "swift export"),
    "swift-dpo": ("train", "megatron rlhf"), "swift-dpo-multinode": ("train", "megatron rlhf"),
    "swift-sft": ("train", "megatron sft"), "qwen3-eval": ("evaluate", "accelerate launch"),
}  # fmt: skip
"""Recipe -> its main step, and the program of it; the others train with Pai-Megatron-Patch."""
TRAIN = ("train", "run_mcore_qwen3.sh")
STEPS = {
    "environment": "pip install", "clone": "git clone", "download": "wget",
    "build-data": "run_build_idxmap_sft_dataset.sh", "convert": "run_8xH20.sh", "train": "run_mcore_qwen3.sh",
}  # fmt: skip
"""Steps of the recipe that has most of them, and a program of each."""
RECORDED_SCRIPT: dict[str, Any] = {"text": "echo 'rehearsal: own-script'\n", "arguments": ["--steps", "100"]}
"""A person's own script whose output is no launcher's."""
UNQUEUED, SKIPPED, JSON_AFTER = "not in a queue", "every step skipped", "JSON data after"

Faults = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Expected:
    """How one attempt has to end."""

    outcome: str = SUCCEEDS
    says: tuple[str, ...] = ()
    """Lines, each in the log of a pod, as regular expressions."""

    def __str__(self) -> str:
        return self.outcome


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    recipe: str
    nodes: int
    fault: str = "none"
    values: dict[str, Any] = field(default_factory=dict)
    expected: tuple[Expected, ...] = (Expected(),)
    attempts: tuple[Faults, ...] = ({},)
    """Which stand-ins fail in each attempt."""
    there: tuple[str, ...] = ()
    """Folders that an earlier job has left on the shared storage."""
    releases: tuple[str, ...] = ("anna.team",)
    """Jobs on the same shared storage, name and namespace, each with so many nodes; their pods are numbered through."""
    late: dict[str, float | str] = field(default_factory=dict)
    """Pod -> the seconds after which it starts, or the line of another pod."""
    absent: tuple[int, ...] = ()
    killed: dict[str, str] = field(default_factory=dict)
    """Pod -> the line after which it is killed."""
    told: str = ""
    """The line after which all pods of the first attempt are told to end."""
    extra: int = 0
    silent: bool = False
    discovery: float = 60
    limit: float = 90
    share_disk: str = "32m"
    disk: str = "64m"
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def is_recorded(self) -> bool:
        """Whether the practice cluster, or what holds it to the launchers, is made of this."""
        alone = self.nodes == 1 and self.fault.endswith(" fails, again")
        return alone or self.fault in (UNQUEUED, SKIPPED, JSON_AFTER) or (self.fault == "none" and self.nodes < 4)


def offered(recipe: str, nodes: int) -> dict[str, Any] | None:
    """The values with which a recipe runs on so many nodes; None where it is for one node only."""
    usual = int(str(CATALOGUE.defaults(recipe)["gpus"]))
    if nodes == 1:
        values: dict[str, Any] = {"gpus": min(usual, 8)}
    elif recipe in ("nccl-one-pod", "qwen3-download", "swift-export", "swift-dpo", "qwen3-eval"):
        return None
    else:
        values = {"gpus": 8 * nodes}
        if recipe.startswith("qwen3-next") and not recipe.endswith("to-mcore"):
            values["recipe"] = {"train": {"globalBatch": 8 * nodes}}
        elif recipe == "swift-sft":
            values["recipe"] = {"swift": {"globalBatch": 64 * nodes}}
        elif recipe == "swift-dpo-multinode":
            values["recipe"] = {"swift": {"globalBatch": 4 * nodes // 2}}
    values["secrets"] = {"HF_TOKEN": "hub/token"}
    values["queue"] = "a4"
    return values


def ordinary() -> list[Case]:
    """Nothing goes wrong."""
    found = []
    for recipe in [recipe.id for recipe in CATALOGUE.recipes()]:
        for nodes in NODES:
            values = offered(recipe, nodes)
            if values is not None:
                end = STAYS if recipe == "interactive" else SUCCEEDS
                if recipe == "own-script":
                    values["recipe"] = {"script": dict(RECORDED_SCRIPT)}
                found.append(Case(recipe, nodes, values=values, expected=(Expected(end),)))
    return found


def recorded() -> list[Case]:
    """What else the practice cluster has to know of the launchers."""
    switches = dict.fromkeys(("environment", "clone", "download", "data", "conversion", "training"), True)
    unqueued = {**(offered("ddp-smoke", 2) or {}), "queue": ""}
    found = [Case("ddp-smoke", 2, UNQUEUED, unqueued)]
    for recipe in (*documents.TRAINING, "qwen3-next-lustre"):
        values = offered(recipe, 2) or {}
        values["recipe"] = values.get("recipe", {}) | {"skip": switches}
        found.append(Case(recipe, 2, SKIPPED, values, (Expected(STAYS),)))
    for recipe in ("qwen3-next-pretrain", "qwen3-next-lustre", "qwen3-next-sft"):
        values = offered(recipe, 1) or {}
        values["recipe"] = {"train": {"alsoJson": True}}
        found.append(Case(recipe, 1, JSON_AFTER, values))
    return found


def networks() -> list[Case]:
    """Ten more interfaces, with and without TCP on them."""
    return [
        Case(recipe, nodes, fault, offered(recipe, nodes) or {}, extra=10, silent=silent)
        for recipe in (*MPI, "ddp-smoke")
        for nodes, fault, silent in (
            (2, "ten interfaces", False),
            (2, "ten silent interfaces", True),
            (4, "ten silent interfaces", True),
        )
    ]


def timings() -> list[Case]:
    """Who comes, and when."""
    found = []
    several = [recipe.id for recipe in CATALOGUE.recipes() if offered(recipe.id, 2) is not None]
    for recipe in several:
        values = offered(recipe, 2) or {}
        if recipe == "interactive":
            values["keepAlive"] = False
        found.append(Case(recipe, 2, "worker ends first", values, late={"0": 2.5}))
    for recipe in ("nccl-all-reduce", "ddp-smoke", "own-script", "qwen3-sft", "swift-dpo-multinode"):
        values = offered(recipe, 2) or {}
        slow: Faults = {"run_mcore_qwen3.sh": {"seconds": 6}, "torchrun": {"seconds": 6}, "megatron": {"seconds": 6}}
        after = {
            "nccl-all-reduce": r"hostfile: skip[\s\S]*waiting for index 0",
            "own-script": "step . script: run",
        }.get(recipe, r"rehearsal: (torchrun|megatron|run_mcore)")
        if recipe == "own-script":
            values = values | {"recipe": {"script": {"text": "sleep 6\n"}}}
        late: dict[str, float | str] = {"0": 1.5} if recipe == "nccl-all-reduce" else {}
        found.append(
            Case(recipe, 2, "worker dies", values, (Expected(FAILS),), (slow,), killed={"1": after}, late=late)
        )
    for recipe in (
        "nccl-all-reduce",
        "connectivity",
        "ddp-smoke",
        "own-script",
        "interactive",
        "qwen3-sft",
        "swift-sft",
    ):
        values = offered(recipe, 2) or {}
        values["keepAlive"] = False
        nobody = (Expected(FAILS, (f"^{SECOND} has not answered within 3 s",)),)
        found.append(Case(recipe, 2, "worker never comes", values, nobody, absent=(1,), discovery=3, limit=20))
        nobody = (Expected(FAILS, ("^index 0 has not been heard of within 3 s",)),)
        found.append(Case(recipe, 2, "index 0 never comes", values, nobody, absent=(0,), discovery=3, limit=20))
    return found


def disks() -> list[Case]:
    """No room, on what the pods share or in the container itself."""
    full = (Expected(FAILS, ("No space left on device",)),)
    found = [
        Case(recipe, nodes, "full shared disk", offered(recipe, nodes) or {}, full, share_disk="200k")
        for recipe, nodes in (("qwen3-sft", 2), ("qwen3-download", 1), ("swift-sft", 2))
    ]
    return found + [
        Case(recipe, nodes, "full container disk", offered(recipe, nodes) or {}, full, disk="4k")
        for recipe, nodes in (("nccl-all-reduce", 2), ("own-script", 1), ("qwen3-sft", 1))
    ]


def repetitions() -> list[Case]:
    """A step fails in the middle; the same launch again does what is missing."""
    found = []
    for recipe in [recipe.id for recipe in CATALOGUE.recipes()]:
        if recipe in ("interactive", "connectivity", "own-script"):
            continue
        step, program = MAIN.get(recipe, TRAIN)
        found.append(again(recipe, 1, step, program))
    for step, program in STEPS.items():
        if step != "train":
            found.append(again("qwen3-next-sft", 2, step, program))
    found.append(again("swift-dpo-multinode", 2, "megatron", "git clone"))
    found.append(again("nccl-all-reduce", 2, "all-reduce", "all_reduce_perf"))
    for recipe in ("qwen3-sft", "qwen3-next-sft"):
        says = (Expected(FAILS, (r"step \d+ build-data: failed",)), Expected())
        nothing: tuple[Faults, ...] = ({"run_build_idxmap_sft_dataset.sh": {"nothing": True}}, {})
        found.append(Case(recipe, 1, "index build writes nothing, again", offered(recipe, 1) or {}, says, nothing))
    return found


def endings() -> list[Case]:
    """A training is told to end, or killed; the same launch again goes on."""
    found = []
    trains: Faults = {"run_mcore_qwen3.sh": {"trains": 40}, "megatron": {"trains": 40}}
    for recipe in (*documents.TRAINING, "qwen3-next-lustre", "swift-dpo", "swift-dpo-multinode", "swift-sft"):
        nodes = 2 if offered(recipe, 2) is not None else 1
        values = offered(recipe, nodes) or {}
        saved = (
            Expected(FAILS, (r"^step \d+ train: ended by SIGTERM after saving step [23]\d$",)),
            Expected(SUCCEEDS, (r"^from the checkpoint of step [23]\d in [\s\S]*^rehearsal: step 40 ",)),
        )
        at = "rehearsal: step 20 "
        found.append(Case(recipe, nodes, "told to end, again", values, saved, (trains, trains), told=at))
        lost = (
            Expected(FAILS),
            Expected(SUCCEEDS, (r"^from the checkpoint of step 15 in [\s\S]*^rehearsal: step 16 ",)),
        )
        at = "rehearsal: step 18 "
        found.append(Case(recipe, nodes, "killed at step 18, again", values, lost, (trains, trains), killed={"0": at}))
    return found


def again(recipe: str, nodes: int, step: str, program: str) -> Case:
    """A case in which a program fails at first."""
    says = (Expected(FAILS, (rf"^step \d+ {step}: failed with exit code 3$",)), Expected())
    return Case(recipe, nodes, f"{step} fails, again", offered(recipe, nodes) or {}, says, ({program: {"code": 3}}, {}))


def own() -> list[Case]:
    """What a person's own script may do."""

    def script(text: str) -> dict[str, Any]:
        return (offered("own-script", 2) or {}) | {"recipe": {"script": {"text": text}}}

    reach = f"if [[ $JOB_COMPLETION_INDEX == 0 ]]; then sleep 2; ssh {SECOND} hostname; fi\n"
    return [
        Case("own-script", 2, "script reaches the other pod", script(reach),
             (Expected(SUCCEEDS, ("^anna-workload-0-1$",)),)),
        Case("own-script", 2, "script fails on a worker", script("exit $((4 * JOB_COMPLETION_INDEX))\n"),
             (Expected(FAILS, ("own-script ended with exit code 4",)),)),
    ]  # fmt: skip


MADE_ONCE = ("git clone", "huggingface-cli", "wget", "run_build_idxmap_sft_dataset.sh", "run_8xH20.sh")
"""What several jobs share once it is there, by the program that makes it."""


def beside() -> list[Case]:
    """Two jobs on one shared storage: each thing is made once, whoever comes first, and nobody's flags are touched."""
    slow: Faults = {program: {"seconds": 1.5} for program in MADE_ONCE if program != "wget"}
    clones, downloads = r"^waiting for team/\w+: it clones ", r"^waiting for team/\w+: it downloads into /"
    builds, converts = r"^waiting for team/\w+: it builds /", r"^waiting for team/\w+: it converts into /"
    found = [
        Case(recipe, nodes, "two launches at the same time", offered(recipe, nodes) or {},
             (Expected(SUCCEEDS, says),), (slow,), releases=("anna.team", "bob.team"), limit=130)
        for recipe, nodes, says in (
            ("qwen3-sft", 1, (clones, downloads, builds, converts)),
            ("qwen3-sft", 2, (clones, downloads, builds, converts)),
            ("qwen3-next-sft", 1, (clones, downloads, builds, converts)),
            ("qwen3-to-mcore", 2, (clones, converts)),
            ("qwen3-download", 1, (downloads,)),
            ("swift-sft", 2, (clones,)),
        )
    ]  # fmt: skip
    # The second begins while the pods of index 1 have not yet seen the flag that index 0 of the first has just set.
    comes = r"step \d+ sync: done"
    return found + [
        Case(recipe, 2, "equal names in two namespaces", offered(recipe, 2) or {}, releases=("anna.team", "anna.other"),
             late={"2": comes, "3": comes}, variables={"A4_POLL_SECONDS": "12"}, limit=130)
        for recipe in ("qwen3-sft", "qwen3-to-mcore")
    ]  # fmt: skip


def kept() -> list[Case]:
    """A program fails in pods that are to be kept."""
    stays = r"^\S+ ended with exit code [1-9]\d*; the pod is kept until the job is stopped$"
    return [
        Case(recipe, nodes, "fails and is kept", {**(offered(recipe, nodes) or {}), "keepAlive": True},
             (Expected(STAYS, (stays,)),), ({MAIN.get(recipe, TRAIN)[1]: {"code": 3}},))
        for recipe, nodes in (("swift-dpo", 1), ("nccl-all-reduce", 2), ("qwen3-sft", 2), ("ddp-smoke", 2))
    ]  # fmt: skip


CKPT = "/mnt/qwen-ckpts/Qwen3-30B-A3B"
THERE = {
    "qwen3-to-mcore": (CKPT,), "qwen3-to-hf": (CKPT, f"{CKPT}-to-mcore"), "qwen3-eval": (f"{CKPT}-mcore-to-hf",),
    "qwen3-next-to-mcore": ("/mnt/ckpts/huggingface/Qwen3-Next-80B-A3B-Instruct",),
}  # fmt: skip
"""What recipes take up that load nothing themselves."""


def all_cases() -> list[Case]:
    """All of them, those that take longest first."""
    found = [*ordinary(), *recorded(), *networks(), *timings(), *disks(), *repetitions(), *endings(), *own()]
    found += [*beside(), *kept()]
    found = [replace(case, there=THERE.get(case.recipe, ())) for case in found]
    return sorted(found, key=lambda case: -weight(case))


def weight(case: Case) -> float:
    """About how many seconds a case takes."""
    pods = case.nodes * len(case.releases)
    return pods * len(case.attempts) * (4 if case.recipe in MPI else 1) + 3 * bool(case.absent)
