"""A training of several processes that hangs: one rank waits in its data loader, the others in all_reduce."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.dirname(__file__))  # noqa: PTH120

from torch.distributed.distributed_c10d import Group, all_reduce  # type: ignore[import-not-found]
from torch.utils.data.dataloader import DataLoader  # type: ignore[import-not-found]


def train_step(group: Group, batches: DataLoader) -> None:
    next(batches)
    all_reduce(group, 1)


def main() -> None:
    # A data loader's worker is a copy of its rank, with the same command line.
    multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,), daemon=True).start()  # noqa: TID251
    group = Group(int(os.environ["MASTER_PORT"]))
    batches = DataLoader(2 if group.rank == int(os.environ["STUCK"]) else 1000)
    for step in range(1000):
        if step == 2:
            print(f"rank {group.rank} begins step 2", flush=True)  # noqa: T201
        train_step(group, batches)


if __name__ == "__main__":
    main()
