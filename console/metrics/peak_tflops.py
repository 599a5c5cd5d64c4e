"""Peak TFLOP/s of GPUs: dense BF16, without sparsity, by which MFU is computed."""

from __future__ import annotations

PEAK_TFLOPS = {
    "nvidia-b200": 2250.0,
    "nvidia-gb200": 2500.0,
    "nvidia-h200": 989.0,
    "nvidia-h100": 989.0,
    "nvidia-a100": 312.0,
    "nvidia-tesla-a100": 312.0,
}
"""By the beginning of the node's accelerator label."""
MAX_MFU = 2.0  # times the BF16 peak: FP8 reaches at most twice as much


def peak_tflops(accelerator: str) -> float | None:
    """Dense BF16 TFLOP/s of the GPU with that accelerator label; None if it is not known."""
    return next((peak for name, peak in PEAK_TFLOPS.items() if accelerator.startswith(name)), None)
