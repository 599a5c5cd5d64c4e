"""The X-ray of a job that hangs: the stacks of all its processes, and what the kernel, NCCL and the network say."""

from console.xray.xray import Xray

__all__ = ["Xray"]
