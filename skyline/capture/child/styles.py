"""Ways of training that a script is recognised by: how its steps are scaled, compiled, spread and driven."""

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

    ``autocast`` is the number format of autocast around modules in training, empty without it, None if none ran.
    """

    def __init__(self):
        self._names = {}
        self.autocast = None

    def add(self, name):
        """The script trains in this way."""
        self._names[name] = True

    def see_stack(self, frame):
        """Whose loop calls the step that ends an iteration."""
        for _ in range(_MOST_FRAMES):
            if frame is None:
                return
            module = frame.f_globals.get("__name__", "")
            for prefix, name in _FRAMEWORKS:
                if isinstance(module, str) and module.startswith(prefix):
                    self.add(name)
            frame = frame.f_back

    def see_module(self, module):
        """A module that is called in training."""
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
        """All that was recognised until now."""
        if compiled_frames():
            self.add("torch.compile")
        return list(self._names)


def _autocast_dtype():
    """The number format that autocast computes in here; None outside of it."""
    try:
        for device in ("cuda", "cpu"):
            if torch.is_autocast_enabled(device):
                return torch.get_autocast_dtype(device)
    except TypeError:
        # torch before 2.4 asks per device under other names.
        if torch.is_autocast_enabled():
            return torch.get_autocast_gpu_dtype()
        if torch.is_autocast_cpu_enabled():
            return torch.get_autocast_cpu_dtype()
    return None


def compiled_frames():
    """Number of functions that torch.compile has compiled, or tried to, in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    return counters["frames"]["total"] + counters["stats"]["unique_graphs"] if counters else 0


def rank():
    """This process's rank and how many there are: ``(0, 1)`` without a process group."""
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1
