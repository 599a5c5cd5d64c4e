"""Measurements of jobs: NCCL tests, training, GPUs, and the alarms based on them."""
