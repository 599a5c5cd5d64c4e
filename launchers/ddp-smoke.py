"""DDP smoke test: every rank adds its own number over a 1024 x 1024 tensor, rank 0 compares the sum with 0+1+...+(n-1).

torchrun sets RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
"""

# ruff: noqa: T201  # its output is what it is for

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist

TOLERANCE = 1e-5


def main() -> int:
    """Run the test; 0 when the sum is right on rank 0, and on every other rank."""
    rank, local_rank, ranks = (int(os.environ[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    name = torch.cuda.get_device_name(device)
    print(f"[rank {rank}/{ranks}] local rank {local_rank} device {device} {name}", flush=True)

    tensor = torch.full((1024, 1024), float(rank), device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM)
    expected = ranks * (ranks - 1) / 2
    actual = tensor.mean().item()
    passed = bool((tensor - expected).abs().max().item() <= TOLERANCE)
    dist.barrier()
    if rank == 0:
        verdict = "PASSED" if passed else "FAILED"
        print(f"expected sum {expected}, actual sum {actual}: {verdict} on {ranks} GPUs", flush=True)
    dist.destroy_process_group()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
