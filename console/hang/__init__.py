"""Diagnoses a hanging job: stacks of all its processes, the state of kernel and NCCL, and advice."""
