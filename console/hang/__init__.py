"""The X-ray of a job that hangs: the stacks of all its processes, what the kernel and NCCL say, and advice."""
