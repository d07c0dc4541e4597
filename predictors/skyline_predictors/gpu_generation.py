"""Which generation a GPU is of: GPUs of one come alike close to their stated peaks."""

from __future__ import annotations

from skyline.predict.gpu_spec import GpuSpec


def generation(gpu: GpuSpec) -> str:
    """``8.0``: how NVIDIA numbers the generations of its GPUs; AMD's are called by their architecture."""
    major, minor = gpu.compute_capability
    return f"{major}.{minor}" if gpu.vendor == "NVIDIA" else gpu.architecture
