"""What to look at next after a failure that a log names: one sentence for each kind."""

from __future__ import annotations

HINTS = {
    "nccl-timeout": "Look at the rank that launched less than the others: a4 hang while the job runs; its last lines, "
    "Xid errors and NICs of its node.",
    "nccl-warning": "Lines of NCCL_DEBUG=INFO before it tell what NCCL tried.",
    "nccl-test": "Run it again with NCCL_DEBUG=INFO (or WARN), which says what NCCL could not do.",
    "cuda-out-of-memory": "Use a smaller micro batch or sequence, recompute activations, or shard over more GPUs.",
    "out-of-memory": "Ask for more memory, or use fewer data loader workers; /dev/shm counts as memory too.",
    "time-limit": "Ask for more time, or save checkpoints more often and start again from the last one.",
    "torchrun": "What that rank printed before its traceback says why.",
    "mpirun": "What that rank printed last says why.",
    "gpu-lost": "The node has to be repaired or restarted: keep it out of the next launch.",
    "killed": "SIGKILL comes mostly from the kernel, when the container's memory runs out, or from a scheduler.",
    "bus-error": "Mostly /dev/shm is full: mount a larger one, or use fewer data loader workers.",
}
_XIDS = {
    13: "The program used memory that is not its own, or the GPU is faulty: run it again on another one.",
    31: "The program used memory that is not its own; if it comes back on this GPU only, the GPU is faulty.",
    43: "The program ended badly; the GPU goes on.",
    45: "The driver cleaned up after a program that ended: what came before it is the cause.",
    48: "An uncorrected memory error: drain the node, reset the GPU.",
    63: "A memory row is marked for remapping: reset the GPU when it is free.",
    64: "A memory row could not be remapped: the GPU has to be replaced.",
    74: "An NVLink error: reset the GPUs of the node, and look at SXid lines of the switches.",
    79: "The GPU cannot be reached any more: keep the node out of the next launch and have it repaired.",
    94: "An uncorrected memory error that ended only the programs it touched: reset the GPU when it is free.",
    95: "An uncorrected memory error that may touch every program on the GPU: drain the node and reset the GPU.",
    119: "The GPU's own processor does not answer: reset the GPU, restart the node if that does not help.",
    120: "The GPU's own processor failed: reset the GPU, restart the node if that does not help.",
    144: "An NVLink error: reset the GPUs of the node.",
    145: "An NVLink error: reset the GPUs of the node.",
    149: "An NVLink error: reset the GPUs of the node.",
}
_WARNINGS = (
    ("unhandled cuda error", "The CUDA error named there is the cause: look for Xid errors on that node."),
    ("Connection closed by remote peer", "Another rank ended first: its last lines tell why."),
    ("Connection refused", "The other rank has ended, or was never there: look at its pod."),
    ("No route to host", "The interface in NCCL_SOCKET_IFNAME does not reach that host."),
    ("Call to ibv", "The RDMA device refuses: look at the pod's networks, its limits (memlock) and the NIC's link."),
    ("async event: port error", "The link of that NIC went down."),
    ("No space left on device", "/dev/shm is full: mount a larger one."),
)
EXCEPTIONS = (
    ("No space left on device", "A file system is full: the message names the path, or /dev/shm is meant."),
    ("DataLoader worker", "Mostly the memory or /dev/shm ran out: use fewer workers, or mount a larger /dev/shm."),
    ("Address already in use", "Another program listens on that port: choose another MASTER_PORT."),
    ("Connection refused", "The master was not there yet or has ended: look at rank 0."),
    ("401 Client Error", "The token for downloads is missing or wrong (HF_TOKEN)."),
    ("GatedRepoError", "The token's owner has not been given access to that model (HF_TOKEN)."),
    ("NCCL", "NCCL_DEBUG=WARN says what NCCL could not do."),
    ("ModuleNotFoundError", "The image lacks that package."),
)
"""Words of an exception and what they mostly mean."""


def of_xid(number: int) -> str:
    """What an Xid mostly asks for; empty where that is not certain."""
    return _XIDS.get(number, "")


def of_warning(text: str) -> str:
    """What a warning of libnccl mostly means; empty where that is not certain."""
    return next((hint for word, hint in _WARNINGS if word in text), "")
