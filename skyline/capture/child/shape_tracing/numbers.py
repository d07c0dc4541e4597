"""Numbers of virtual tensors: known if the script provided them, ones if they would have to be computed."""

from __future__ import annotations

import torch

from .virtual import VirtualTensor

_MOST_KNOWN = 4096


def known(tensor, ledger):
    """The numbers of a tensor as a real tensor, or None."""
    if not isinstance(tensor, VirtualTensor):
        return tensor if tensor.numel() <= _MOST_KNOWN else None
    if tensor.known is None:
        return None
    block = ledger.block(tensor.meta)
    return None if block is None or block.stale else tensor.known


def keep(tensor):
    """True if a tensor is small enough to keep its numbers."""
    return tensor.numel() <= _MOST_KNOWN


def computed(func, args, kwargs, ledger):
    """The real result of an operator if the numbers of all its arguments are known, or None."""
    real = _KnownTensors(ledger)
    arguments = real.take(args)
    options = {name: real.take(value) for name, value in kwargs.items()}
    if real.missing:
        return None
    if "device" in options:
        options["device"] = torch.device("cpu")
    try:
        return func(*arguments, **options)
    except (RuntimeError, NotImplementedError, TypeError):
        return None


def guess(dtype):
    """The number to read from a tensor whose numbers are unknown: one, or False for booleans."""
    if dtype is torch.bool:
        return False
    if dtype.is_complex:
        return complex(1.0)
    return 1.0 if dtype.is_floating_point else 1


class _KnownTensors:
    """Replaces virtual tensors by their numbers; ``missing`` is True if one has none."""

    def __init__(self, ledger):
        self._ledger = ledger
        self.missing = False

    def take(self, value):
        if isinstance(value, torch.Tensor):
            real = known(value, self._ledger)
            self.missing = self.missing or real is None
            return real
        if isinstance(value, (list, tuple)):
            return type(value)(self.take(item) for item in value) if type(value) in (list, tuple) else value
        return value
