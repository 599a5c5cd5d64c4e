"""What jobs measure: NCCL tests, training, GPUs, and the alarms about them."""
