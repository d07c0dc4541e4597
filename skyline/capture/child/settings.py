"""PyTorch's global switches as they stand."""

from __future__ import annotations

import torch


def settings(devices, autocast):
    """What decides how fast and how exactly PyTorch computes, as of ``skyline.trace.Settings``.

    ``autocast`` is what was seen around the forward pass. A switch that this version of PyTorch does not have,
    or does not tell, is None. A device is only asked where the script computes on it.
    """
    return {
        "matmul_precision": _asked(torch.get_float32_matmul_precision),
        "cudnn_tf32": _asked(lambda: bool(torch.backends.cudnn.allow_tf32)),
        "cudnn_benchmark": _asked(lambda: bool(torch.backends.cudnn.benchmark)),
        "deterministic": _asked(torch.are_deterministic_algorithms_enabled),
        "autocast": autocast,
        "compute_capability": _asked(devices.capability),
        "interop_threads": _asked(torch.get_num_interop_threads),
    }


def _asked(question):
    try:
        return question()
    except Exception:
        # Switches that contradict each other are refused with errors of many kinds.
        return None
