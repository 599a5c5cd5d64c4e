"""The processes and Python stacks of trainings: Megatron-Patch, SWIFT, or a person's own script.

Made up, as the programs call each other: frames of functions below it, its step of training, and what called that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from practice.programs.steps import ProgramContext

PYTHON = "/usr/bin/python3"
_SITE = "/usr/local/lib/python3.12/dist-packages"
_SCRIPT = {
    "train": ["backward (torch/_tensor.py:648)", "main (train.py:187)"],
    "nccl": ["average_loss (train.py:143)", "main (train.py:191)"],
    "data": ["main (train.py:181)"],
}
_SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"


def model_parallel_sizes(place: ProgramContext) -> tuple[int, int, int]:
    """Return the sizes of tensor, pipeline and context parallelism; SWIFT's recipes set the first alone."""
    swift = place.env.get("A4_SWIFT_TP")
    if swift:
        return int(swift), 1, 1
    tensor, pipeline, context = (int(place.env.get(name) or 1) for name in ("A4_TP", "A4_PP", "A4_CP"))
    return tensor, pipeline, context


def torchrun_command(place: ProgramContext) -> list[str]:
    """Return the command line of torchrun in the pod, up to the program's arguments."""
    torchrun = ["-m", "torch.distributed.run"] if _is_swift(place) else ["/usr/local/bin/torchrun"]
    return [PYTHON, *torchrun, f"--nproc_per_node={place.gpus}", *program_command(place)[2:]]


def program_command(place: ProgramContext) -> list[str]:
    """Return the command line of a rank."""
    tensor, pipeline, _ = model_parallel_sizes(place)
    if _is_swift(place):
        return [
            PYTHON,
            "-u",
            f"{_SITE}/swift/cli/_megatron/{_swift_task(place)}.py",
            "--tensor_model_parallel_size",
            str(tensor),
        ]
    if is_megatron(place):
        sizes = ["--tensor-model-parallel-size", str(tensor), "--pipeline-model-parallel-size", str(pipeline)]
        return [PYTHON, "-u", "pretrain_qwen.py", *sizes]
    return [PYTHON, "-u", "train.py"]


def stack_frames(place: ProgramContext, doing: str) -> list[str]:
    """Return the stack frames above PyTorch's, innermost first, while training, waiting in NCCL or for data."""
    if not is_megatron(place):
        return [*_SCRIPT[doing], "<module> (train.py:212)"]
    swift = _is_swift(place)
    schedule = "forward_backward_no_pipelining"
    if model_parallel_sizes(place)[1] > 1:
        schedule = "forward_backward_pipelining_without_interleaving"
    inner = {
        "train": [f"custom_backward ({_SCHEDULES}:151)", f"backward_step ({_SCHEDULES}:424)"],
        "nccl": [
            "finish_grad_sync (megatron/core/distributed/param_and_grad_buffer.py:405)",
            "finalize_model_grads (megatron/core/distributed/finalize_model_grads.py:265)",
        ],
        "data": [
            f"get_batch_on_this_tp_rank ({'swift/megatron/trainers' if swift else 'megatron/training'}/utils.py:385)",
            f"forward_step ({'swift/megatron/trainers/trainer.py:83' if swift else 'pretrain_qwen.py:98'})",
        ],
    }[doing]
    callers = _swift_callers(place) if swift else [*_LOOP, "<module> (pretrain_qwen.py:164)"]
    line = {"train": 2009, "nccl": 2041, "data": 1938}[doing]
    return [*inner, f"{schedule} ({_SCHEDULES}:{line})", *callers]


def _swift_callers(place: ProgramContext) -> list[str]:
    """Return SWIFT's frames: until version 3 it calls Megatron's loop, since 4 it has its own."""
    task, trainer = _swift_task(place), "swift/megatron/trainers/base.py"
    newer = int(place.env.get("A4_SWIFT_VERSION", "3.10.3").partition(".")[0]) >= 4
    train, base = ("megatron/pipelines/train", "pipelines") if newer else ("megatron/train", "llm")
    loop = [f"train_step ({trainer}:742)"] if newer else _LOOP
    return [
        *loop,
        f"train ({trainer}:1012)",
        f"run (swift/{train}/sft.py:70)",
        f"main (swift/{base}/base.py:49)",
        f"megatron_{task}_main (swift/{train}/{task}.py:86)",
        f"<module> (swift/cli/_megatron/{task}.py:7)",
    ]


_LOOP = [
    "train_step (megatron/training/training.py:1317)",
    "train (megatron/training/training.py:2262)",
    "pretrain (megatron/training/training.py:776)",
]


def is_megatron(place: ProgramContext) -> bool:
    return _is_swift(place) or place.env.get("A4_RECIPE", "").startswith("qwen3")


def _is_swift(place: ProgramContext) -> bool:
    return place.env.get("A4_RECIPE", "").startswith("swift")


def _swift_task(place: ProgramContext) -> str:
    return "rlhf" if "dpo" in place.env.get("A4_RECIPE", "") else "sft"
