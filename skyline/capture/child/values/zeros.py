"""Counts zeros in the operands of linear layers and convolutions, and the bits that they need, in one iteration."""

from __future__ import annotations

import torch
from torch import nn

_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MOST_ELEMENTS = 1 << 14
"""Maximum number of sampled elements per tensor: a share of one half is then known to within a hundredth."""
_MOST_LAYERS = 200
_LARGEST = (1 << 15) - 1
_MOST_IN_EIGHT, _MOST_IN_FOUR = (1 << 7) - 1, (1 << 3) - 1
"""Largest integers of 16, 8 and 4 bits."""


class _Layer:
    """A layer; ``inputs`` and ``gradients`` (of outputs) have the element count and the measures of each call."""

    __slots__ = ("gradients", "inputs", "module", "multiplications", "path")

    def __init__(self, path, module):
        self.path = path
        self.module = module
        self.inputs = []
        self.gradients = []
        self.multiplications = 0


class Zeros:
    """Hooks the layers among the modules until ``stop``; the hooks change nothing."""

    def __init__(self, modules):
        layers = [_Layer(path, module) for path, module in modules if type(module) in _LAYERS]
        self._layers = layers[:_MOST_LAYERS]
        self._handles = [layer.module.register_forward_hook(self._hook(layer)) for layer in self._layers]
        self.problem = ""

    def stop(self):
        """Remove the hooks at the end of the iteration."""
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def rows(self):
        """Rows of ``skyline.trace.tensor_values.LayerZeros``, for the layers that ran."""
        return [
            {
                "path": layer.path,
                "multiplications": layer.multiplications,
                **{name: None if seen is None else seen["zeros"] for name, seen in self._seen(layer)},
            }
            for layer in self._layers
            if layer.inputs
        ]

    def width_rows(self):
        """Rows of ``skyline.trace.tensor_values.LayerWidths``, for the layers that ran."""
        return [
            {
                "path": layer.path,
                **{
                    name: seen and {key: value for key, value in seen.items() if key != "zeros"}
                    for name, seen in self._seen(layer)
                },
            }
            for layer in self._layers
            if layer.inputs
        ]

    def _seen(self, layer):
        """Pairs of a name and the measures of inputs, weights and gradients of a layer; None without a gradient."""
        with torch.no_grad():
            weights = _measures(layer.module.weight)
        gradients = _mean(layer.gradients) if layer.gradients else None
        return ("inputs", _mean(layer.inputs)), ("weights", _mean([weights])), ("gradients", gradients)

    def _hook(self, layer):
        def see(module, given, result):
            if not module.training or self.problem:
                return
            try:
                self._see(layer, given[0], result)
            except Exception as error:
                # Some kinds of tensors cannot be counted, but the script must go on.
                self.problem = f"{type(error).__name__}: {error}"

        return see

    def _see(self, layer, given, result):
        if not given.numel() or not result.numel():
            return
        with torch.no_grad():
            layer.inputs.append(_measures(given))
        weight = layer.module.weight
        layer.multiplications += result.numel() * weight.numel() // weight.shape[0]
        if result.requires_grad:
            result.register_hook(self._gradient_hook(layer))

    def _gradient_hook(self, layer):
        def see(gradient):
            if self.problem:
                return
            try:
                with torch.no_grad():
                    layer.gradients.append(_measures(gradient))
            except Exception as error:
                self.problem = f"{type(error).__name__}: {error}"

        return see


_NAMES = ("zeros", "mean_bits", "in_eight_bits", "in_four_bits")


def _measures(tensor):
    """The element count of a tensor, and a tensor of the measures in ``_NAMES``, without a wait for the GPU."""
    flat = tensor.detach().reshape(-1)
    # With an odd stride the samples go through all channels of a layout in turn.
    stride = max(1, flat.numel() // _MOST_ELEMENTS) | 1
    sample = flat[::stride]
    return flat.numel(), torch.stack([(sample == 0).float().mean(), *widths(sample)])


def widths(sample):
    """The mean number of bits, and the shares of values that fit 8 and 4 bits, as tensors; ``sample`` is not empty.

    The sample's largest value sets the scale. If the tensor has a larger one, its other values need fewer bits.
    A NaN needs all bits, and so do all values of a sample with a NaN.
    """
    size = sample.abs().float()
    steps = (size / size.amax().clamp_(min=torch.finfo(torch.float32).tiny) * _LARGEST).round_()
    steps.nan_to_num_(nan=_LARGEST)
    bits = 1 + (steps + 1).log2().ceil_()
    return bits.mean(), (steps <= _MOST_IN_EIGHT).float().mean(), (steps <= _MOST_IN_FOUR).float().mean()


def _mean(calls):
    """The mean of the measures over calls, and the total element count."""
    means = torch.stack([measures.to("cpu") for _, measures in calls]).mean(dim=0).tolist()
    return {"numbers": sum(count for count, _ in calls), **dict(zip(_NAMES, means, strict=True))}
