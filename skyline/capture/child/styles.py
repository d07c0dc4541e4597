"""Styles of training that are detected in a script: gradient scaling, compilation, parallelism, frameworks."""

from __future__ import annotations

import sys

import torch

_FRAMEWORKS = (
    ("transformers.trainer", "Hugging Face Trainer"),
    ("lightning.", "PyTorch Lightning"),
    ("pytorch_lightning.", "PyTorch Lightning"),
    ("lightning_fabric.", "Lightning Fabric"),
    ("accelerate.", "Accelerate"),
    ("fastai.", "fastai"),
    ("ignite.", "PyTorch Ignite"),
    ("keras.src.backend.torch.trainer", "Keras"),
)
_MOST_FRAMES = 200


class Styles:
    """Collects style names while the script warms up; each is named once, in the order seen.

    ``autocast`` is the number format of autocast around training modules; empty without autocast, None if none ran.
    """

    def __init__(self):
        self._names = {}
        self.autocast = None

    def add(self, name):
        """Add a style of the script."""
        self._names[name] = True

    def see_stack(self, frame):
        """Add the framework whose loop calls the step that ends an iteration."""
        for _ in range(_MOST_FRAMES):
            if frame is None:
                return
            module = frame.f_globals.get("__name__", "")
            for prefix, name in _FRAMEWORKS:
                if isinstance(module, str) and module.startswith(prefix):
                    self.add(name)
            frame = frame.f_back

    def see_module(self, module):
        """Add the styles that a called module shows."""
        if isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)):
            self.add("recurrent network")
        name = type(module).__name__
        if name in {"DistributedDataParallel", "FullyShardedDataParallel", "DataParallel"}:
            self.add(name)
        precision = _autocast_dtype()
        if precision is not None:
            named = str(precision).replace("torch.", "")
            self.add(f"automatic mixed precision ({named})")
            self.autocast = named if module.training else self.autocast
        elif module.training:
            self.autocast = self.autocast or ""

    def names(self):
        """All styles so far."""
        if compiled_frames():
            self.add("torch.compile")
        return list(self._names)


def _autocast_dtype():
    """The number format of the current autocast; None without autocast."""
    try:
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                return torch.get_autocast_dtype(device)
    except TypeError:
        # PyTorch before 2.4 has other functions for each device.
        if torch.is_autocast_enabled():
            return torch.get_autocast_gpu_dtype()
        if torch.is_autocast_cpu_enabled():
            return torch.get_autocast_cpu_dtype()
    return None


def compiled_frames():
    """Number of functions that torch.compile has compiled, or tried to compile, in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return counters["frames"]["total"] + counters["stats"]["unique_graphs"] if counters else 0


def rank():
    """This process's rank and the number of ranks: ``(0, 1)`` without a process group."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
