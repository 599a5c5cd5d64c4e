"""A training by PyTorch's gloo or NCCL, with the process groups of Megatron, that hangs in one of several ways.

Variables: BACKEND (gloo, nccl), HANG (one of HANGS), VICTIM (a rank), TP and PP (sizes of the tensor and the pipeline
group), FOLDER. It stands alone: it runs with any PyTorch that records gloo's operations.

Gloo has no watchdog that dumps the flight recorder when its pipe is written to, as NCCL's has: a thread of this program
does it, in the same form. And where a peer is gone, gloo raises, and NCCL does so with sockets; over InfiniBand it
waits: so does this program then.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import sys
import threading
import time
import types
from datetime import timedelta
from pathlib import Path

import torch  # type: ignore[import-not-found]
import torch.distributed as dist  # type: ignore[import-not-found]
from torch._C import _distributed_c10d  # type: ignore[import-not-found]
from torch.utils.data import DataLoader, Dataset  # type: ignore[import-not-found]

HANGS = ("skip", "order", "shape", "data", "dead", "stop", "stage", "checkpoint", "epoch", "lock", "teardown", "gpu")
NCCL = os.environ.get("BACKEND") == "nccl"
DEVICE = "cuda" if NCCL else "cpu"
MANY = 1 << 18 if NCCL else 1  # so much that no buffer takes it all where nobody receives
STEPS, HANG_AT = 1000, 3
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
TP, PP = int(os.environ["TP"]), int(os.environ["PP"])
DP = WORLD // TP // PP
TENSOR, REPLICA, STAGE = RANK % TP, RANK // TP % DP, RANK // TP // DP
FOLDER = Path(os.environ["FOLDER"])
HANG, VICTIM = os.environ["HANG"], int(os.environ["VICTIM"])


def make_groups() -> dict[str, dist.ProcessGroup]:
    """The groups of this rank: tensor, data and pipeline, in the order of Megatron."""
    every = {
        "TENSOR_MODEL_PARALLEL_GROUP": [
            [t + TP * (d + DP * p) for t in range(TP)] for p in range(PP) for d in range(DP)
        ],
        "DATA_PARALLEL_GROUP": [[t + TP * (d + DP * p) for d in range(DP)] for p in range(PP) for t in range(TP)],
        "PIPELINE_MODEL_PARALLEL_GROUP": [
            [t + TP * (d + DP * p) for p in range(PP)] for d in range(DP) for t in range(TP)
        ],
    }
    own = {}
    for desc, several in every.items():
        for ranks in several:
            group = dist.new_group(ranks, group_desc=desc)
            if RANK in ranks:
                own[desc.partition("_")[0].lower()] = group
    return own


def serve_recorder() -> None:
    """Dump the recorder whenever the pipe is written to, as NCCL's watchdog does."""
    path = f"{os.environ['TORCH_NCCL_DEBUG_INFO_PIPE_FILE']}{RANK}.pipe"
    os.mkfifo(path)
    while True:
        with open(path, "rb") as pipe:  # noqa: PTH123
            pipe.read()
        dump = pickle.loads(_distributed_c10d._dump_fr_trace())
        world = dist.distributed_c10d._world
        dump["pg_config"] = {
            name: {"name": name, "desc": group.group_desc, "ranks": str(sorted(world.pg_group_ranks[group]))}
            for group, name in world.pg_names.items()
        }
        place = Path(f"{os.environ['TORCH_FR_DUMP_TEMP_FILE']}{RANK}")
        place.with_suffix(".part").write_bytes(pickle.dumps(dump))
        place.with_suffix(".part").rename(place)


def skip_compiler() -> None:
    """Spare 64 processes the import of PyTorch's compiler, which the first dump makes to look for compiled frames."""
    compiler, cache = types.ModuleType("torch._inductor"), types.ModuleType("torch._inductor.codecache")
    cache.PyCodeCache = types.SimpleNamespace(stack_frames_for_code=lambda *_: None)  # type: ignore[attr-defined]
    sys.modules |= {"torch._inductor": compiler, "torch._inductor.codecache": cache}


class Batches(Dataset):  # type: ignore[misc]
    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        if HANG == "data" and RANK == VICTIM and index >= HANG_AT:
            time.sleep(3600)  # a file system that does not answer
        return torch.ones(8)


def forward_and_backward(batch: torch.Tensor, groups: dict[str, dist.ProcessGroup], step: int) -> None:
    value = batch.to(DEVICE)
    if STAGE > 0:
        dist.recv(value, group_src=STAGE - 1, group=groups["pipeline"])
    dist.all_reduce(value, group=groups["tensor"])
    if hangs(step, "stage"):
        compile_kernel()
    if STAGE < PP - 1:
        dist.send(value, group_dst=STAGE + 1, group=groups["pipeline"])
        dist.recv(value, group_src=STAGE + 1, group=groups["pipeline"])
    if STAGE > 0:
        dist.send(value, group_dst=STAGE - 1, group=groups["pipeline"])


def compile_kernel() -> None:
    time.sleep(3600)


def reduce_gradients(groups: dict[str, dist.ProcessGroup], step: int) -> None:
    size = 24 if hangs(step, "shape") else 16
    if hangs(step, "skip"):
        return
    if hangs(step, "order"):
        dist.broadcast(torch.ones(16 * MANY, device=DEVICE), group_src=0, group=groups["data"])
    if hangs(step, "gpu"):
        torch.cuda._sleep(1 << 50)  # a kernel that does not end
    dist.all_reduce(torch.ones(size * MANY, device=DEVICE), group=groups["data"])
    dist.broadcast(torch.ones(16 * MANY, device=DEVICE), group_src=0, group=groups["data"])


def hangs(step: int, how: str) -> bool:
    """Whether this rank goes wrong in that way, in that step."""
    return how == HANG and RANK == VICTIM and step == HANG_AT


def save_checkpoint() -> None:
    with open(FOLDER / "storage", "wb") as file:  # noqa: PTH123
        torch.save({"model": torch.ones(1 << 20)}, file)


def init() -> dict[str, dist.ProcessGroup]:
    skip_compiler()
    if NCCL:
        with contextlib.suppress(OSError):  # sleep while the GPU works: several ranks share few cores here
            ctypes.CDLL("libcudart.so.13").cudaSetDeviceFlags(4)
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", timeout=timedelta(hours=1), device_id=torch.device("cuda", 0))
        return make_groups()
    dist.init_process_group("gloo", timeout=timedelta(hours=1))
    groups = make_groups()
    threading.Thread(target=serve_recorder, daemon=True).start()
    return groups


def read_configuration() -> None:
    """Take a lock twice, as a logger does that logs in its own handler."""
    lock = threading.Lock()
    with lock:
        lock.acquire()


def train() -> None:
    groups = init()
    workers = 1 if HANG == "data" and RANK == VICTIM else 0
    batches = iter(DataLoader(Batches(), batch_size=None, num_workers=workers, prefetch_factor=1 if workers else None))
    replica_leaves = HANG == "epoch" and REPLICA == VICTIM // TP % DP
    for step in range(STEPS):
        if step == HANG_AT:
            if not NCCL:
                _distributed_c10d._dump_fr_trace()
            (FOLDER / f"begun-{RANK}").touch()
            if replica_leaves:  # its sampler has one batch less
                break
            if hangs(step, "teardown"):
                dist.destroy_process_group()
                threading.Event().wait()
            if hangs(step, "lock"):
                read_configuration()
        batch = next(batches)
        if hangs(step, "dead"):
            os._exit(1)
        if hangs(step, "stop"):
            os.kill(os.getpid(), 19)
        forward_and_backward(batch, groups, step)
        reduce_gradients(groups, step)
        loss = torch.ones(1, device=DEVICE)
        dist.all_reduce(loss)
        loss.item()
        if hangs(step, "checkpoint"):
            save_checkpoint()
    dist.barrier()


if __name__ == "__main__":
    try:
        train()
        (FOLDER / f"ended-{RANK}").touch()
    except RuntimeError as error:
        print(error, flush=True)  # noqa: T201
        threading.Event().wait()
