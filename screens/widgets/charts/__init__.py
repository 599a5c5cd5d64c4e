"""Charts in terminal cells: NCCL curves and training runs."""
