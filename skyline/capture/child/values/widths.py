"""Bits that values need as 16-bit integers, after scaling their tensor's largest value to the largest integer."""

from __future__ import annotations

import torch

_LARGEST = (1 << 15) - 1
_MOST_IN_EIGHT, _MOST_IN_FOUR = (1 << 7) - 1, (1 << 3) - 1


def widths(sample):
    """The mean number of bits, the share of values in eight bits and in four, as tensors; ``sample`` is not empty.

    The sample's largest value sets the scale. Where the tensor has a larger one, its other values need fewer bits.
    A value that is no number needs all bits, and so do all values of a sample with one.
    """
    size = sample.abs().float()
    steps = (size / size.amax().clamp_(min=torch.finfo(torch.float32).tiny) * _LARGEST).round_()
    steps.nan_to_num_(nan=_LARGEST)
    bits = 1 + (steps + 1).log2().ceil_()
    return bits.mean(), (steps <= _MOST_IN_EIGHT).float().mean(), (steps <= _MOST_IN_FOUR).float().mean()
