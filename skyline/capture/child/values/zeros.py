"""Shares of zeros in what linear layers and convolutions multiply, counted in one iteration."""

from __future__ import annotations

import torch
from torch import nn

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MOST_ELEMENTS = 1 << 14
"""Elements of a tensor that are looked at: a share of a half is then known to within a hundredth."""
_MOST_LAYERS = 200


class _Layer:
    """A layer; ``seen`` are shares of zeros as tensors: of inputs, and of gradients of outputs."""

    __slots__ = ("gradients", "inputs", "module", "multiplications", "path")

    def __init__(self, path, module):
        self.path = path
        self.module = module
        self.inputs = []
        self.gradients = []
        self.multiplications = 0


class Zeros:
    """Hooks the layers among the modules, until ``stop``; the hooks return nothing."""

    def __init__(self, modules):
        layers = [_Layer(path, module) for path, module in modules if type(module) in _LAYERS]
        self._layers = layers[:_MOST_LAYERS]
        self._handles = [layer.module.register_forward_hook(self._hook(layer)) for layer in self._layers]
        self.problem = ""

    def stop(self):
        """The iteration is over."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def rows(self):
        """As of ``skyline.trace.tensor_values.LayerZeros``, of the layers that ran."""
        with torch.no_grad():
            return [
                {
                    "path": layer.path,
                    "multiplications": layer.multiplications,
                    "inputs": _mean(layer.inputs),
                    "weights": float(_share(layer.module.weight)),
                    "gradients": _mean(layer.gradients) if layer.gradients else None,
                }
                for layer in self._layers
                if layer.inputs
            ]

    def _hook(self, layer):
        def see(module, given, result):
            if not module.training or self.problem:
                return
            try:
                self._see(layer, given[0], result)
            except Exception as error:
                # Tensors of other kinds cannot be counted; the script goes on.
                self.problem = f"{type(error).__name__}: {error}"

        return see

    def _see(self, layer, given, result):
        if not given.numel() or not result.numel():
            return
        with torch.no_grad():
            layer.inputs.append(_share(given))
        weight = layer.module.weight
        layer.multiplications += result.numel() * weight.numel() // weight.shape[0]
        if result.requires_grad:
            result.register_hook(self._gradient_hook(layer))

    def _gradient_hook(self, layer):
        def see(gradient):
            with torch.no_grad():
                layer.gradients.append(_share(gradient))

        return see


def _share(tensor):
    """The share of zeros, as a tensor: on a GPU nothing waits for it."""
    flat = tensor.detach().reshape(-1)
    # An odd stride meets all channels of a layout in turn.
    stride = max(1, flat.numel() // _MOST_ELEMENTS) | 1
    return (flat[::stride] == 0).float().mean()


def _mean(shares):
    return float(torch.stack([share.to("cpu") for share in shares]).mean())
