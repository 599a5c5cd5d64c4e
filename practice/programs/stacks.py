"""The processes and Python stacks of trainings: Megatron-Patch, SWIFT, or a person's own script.

The stacks are invented after the programs' code: functions inside the training step, the step, and its callers.
"""

from __future__ import annotations

from practice.programs.process_groups import model_parallel_sizes
from practice.programs.steps import ProgramContext

PYTHON = "/usr/bin/python3"
_SITE = "/usr/local/lib/python3.12/dist-packages"
_SCHEDULES = "megatron/core/pipeline_parallel/schedules.py"
_TRAINING, _CHECKPOINTING = "megatron/training/training.py", "megatron/core/dist_checkpointing"
_FILESYSTEM = "torch/distributed/checkpoint/filesystem.py"
_SCRIPT = {
    "train": ["backward (torch/_tensor.py:648)", "main (train.py:187)"],
    "nccl": ["average_loss (train.py:143)", "main (train.py:191)"],
    "grads": ["reduce_gradients (train.py:129)", "main (train.py:189)"],
    "params": ["share_buffers (train.py:135)", "main (train.py:188)"],
    "data": ["main (train.py:181)"],
    "checkpoint": [
        f"_write_files_from_queue ({_FILESYSTEM}:408)",
        f"write_data ({_FILESYSTEM}:702)",
        "save_checkpoint (train.py:118)",
        "main (train.py:195)",
    ],
    "lock": ["log_step (train.py:152)", "main (train.py:193)"],
    "barrier": ["main (train.py:199)"],
}
_MEGATRON = {
    "norm": [
        "get_grad_norm_fp32 (megatron/core/optimizer/clip_grads.py:121)",
        "get_grad_norm (megatron/core/optimizer/optimizer.py:229)",
        "step (megatron/core/optimizer/optimizer.py:1302)",
    ],
    "params": ["broadcast_params (megatron/core/distributed/distributed_data_parallel.py:548)"],
    "checkpoint": [
        f"write_preloaded_data ({_CHECKPOINTING}/strategies/filesystem_async.py:386)",
        f"save ({_CHECKPOINTING}/serialization.py:404)",
        "save_checkpoint (megatron/training/checkpointing.py:540)",
        f"save_checkpoint_and_time ({_TRAINING}:1745)",
    ],
    "lock": [f"training_log ({_TRAINING}:1631)"],
    "barrier": [f"print_datetime ({_TRAINING}:178)"],
}
"""Frames outside the schedule of forward and backward."""
PLACES = {name: name for name in ("train", "nccl", "data", "checkpoint", "lock", "barrier", "compile", "teardown")}
PLACES["norm"] = "nccl"
"""By stack location of a process: the file of data/ with PyTorch's part of the stack."""


def torchrun_command(context: ProgramContext) -> list[str]:
    """Return the command line of torchrun in the pod, up to the program's arguments."""
    torchrun = ["-m", "torch.distributed.run"] if _is_swift(context) else ["/usr/local/bin/torchrun"]
    return [PYTHON, *torchrun, f"--nproc_per_node={context.gpus}", *program_command(context)[2:]]


def program_command(context: ProgramContext) -> list[str]:
    """Return the command line of a rank."""
    tensor, pipeline, _ = model_parallel_sizes(context)
    if _is_swift(context):
        return [
            PYTHON,
            "-u",
            f"{_SITE}/swift/cli/_megatron/{_swift_task(context)}.py",
            "--tensor_model_parallel_size",
            str(tensor),
        ]
    if is_megatron(context):
        sizes = ["--tensor-model-parallel-size", str(tensor), "--pipeline-model-parallel-size", str(pipeline)]
        return [PYTHON, "-u", "pretrain_qwen.py", *sizes]
    return [PYTHON, "-u", "train.py"]


def stack_frames(context: ProgramContext, activity: str) -> list[str]:
    """Return the stack frames above PyTorch's, innermost first, of a process at one of PLACES, or of a collective."""
    if activity == "teardown":
        return []
    if not is_megatron(context):
        return [*_SCRIPT.get(PLACES.get(activity, activity), _SCRIPT["train"]), "<module> (train.py:212)"]
    swift = _is_swift(context)
    callers = _swift_callers(context) if swift else [*_LOOP, "<module> (pretrain_qwen.py:164)"]
    if activity in _MEGATRON:
        # A step is one call of the loop; what is behind the loop is not in it.
        left = {"checkpoint": 1, "lock": 1, "barrier": 2}.get(activity, 0)
        return [*_MEGATRON[activity], *callers[min(left, 1) if callers[0] not in _LOOP else left :]]
    schedule = "forward_backward_no_pipelining"
    if model_parallel_sizes(context)[1] > 1:
        schedule = "forward_backward_pipelining_without_interleaving"
    reduces = [
        "finish_grad_sync (megatron/core/distributed/param_and_grad_buffer.py:405)",
        "finalize_model_grads (megatron/core/distributed/finalize_model_grads.py:265)",
    ]
    forward = f"forward_step ({'swift/megatron/trainers/trainer.py:83' if swift else 'pretrain_qwen.py:98'})"
    inner = {
        "train": [f"custom_backward ({_SCHEDULES}:151)", f"backward_step ({_SCHEDULES}:424)"],
        "nccl": reduces,
        "grads": reduces,
        "data": [
            f"get_batch_on_this_tp_rank ({'swift/megatron/trainers' if swift else 'megatron/training'}/utils.py:385)",
            forward,
        ],
        "compile": [forward, f"forward_step ({_SCHEDULES}:402)"],
        "receive": ["recv_forward (megatron/core/pipeline_parallel/p2p_communication.py:448)"],
    }[activity]
    line = {"train": 2009, "nccl": 2041, "grads": 2041, "data": 1938, "compile": 1951, "receive": 1966}[activity]
    return [*inner, f"{schedule} ({_SCHEDULES}:{line})", *callers]


def _swift_callers(context: ProgramContext) -> list[str]:
    """Return SWIFT's frames: until version 3 it calls Megatron's loop, since 4 it has its own."""
    task, trainer = _swift_task(context), "swift/megatron/trainers/base.py"
    newer = int(context.env.get("A4_SWIFT_VERSION", "3.10.3").partition(".")[0]) >= 4
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


def is_megatron(context: ProgramContext) -> bool:
    return _is_swift(context) or context.env.get("A4_RECIPE", "").startswith("qwen3")


def _is_swift(context: ProgramContext) -> bool:
    return context.env.get("A4_RECIPE", "").startswith("swift")


def _swift_task(context: ProgramContext) -> str:
    return "rlhf" if "dpo" in context.env.get("A4_RECIPE", "") else "sft"
