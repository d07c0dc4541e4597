"""Tries single operators in float32 and in a narrower format, on tensors of sizes that the script used."""

from __future__ import annotations

import time

import torch
from torch.nn import functional
from torch.utils import _python_dispatch

# Kept from before the script could put something else in its place.
_clock = time.perf_counter

_ROUNDS = 5


def _convolution(dimensions):
    called = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[dimensions]

    def convolve(tensors, options):
        return called(*tensors, **options)

    return convolve


_CALLS = {
    "aten::linear": lambda tensors, _: functional.linear(*tensors),
    "aten::matmul": lambda tensors, _: torch.matmul(*tensors),
    "aten::mm": lambda tensors, _: torch.mm(*tensors),
    "aten::bmm": lambda tensors, _: torch.bmm(*tensors),
    "aten::addmm": lambda tensors, _: torch.addmm(*tensors),
    "aten::conv1d": _convolution(1),
    "aten::conv2d": _convolution(2),
    "aten::conv3d": _convolution(3),
    "aten::scaled_dot_product_attention": lambda tensors, _: functional.scaled_dot_product_attention(
        *tensors
    ),
}


def tried(asked, number_format, seconds):
    """Rows as of ``skyline.capture.narrow_trials.Tried``; what cannot be called is left out.

    Begins no further one after ``seconds``. Random numbers are not drawn, and the script's tensors not touched.
    """
    if _python_dispatch._len_torch_dispatch_stack() > 0:
        return []
    end, rows = _clock() + seconds, []
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        for number, one in enumerate(asked):
            if _clock() >= end:
                break
            try:
                rows.append({"number": number, **_tried(one, getattr(torch, number_format))})
            except (RuntimeError, TypeError, ValueError):
                # Called with arguments that its sizes do not tell, or not possible in this format.
                continue
    return rows


def _tried(one, narrow):
    call = _CALLS[one["operator"]]
    wide = _Form(call, one, torch.float32)
    narrowed = _Form(call, one, narrow)
    # The first calls choose among the library's ways and lay out the weights.
    wide.forward(), narrowed.forward()
    wide.backward(), narrowed.backward()
    times = {"forward": ([], []), "backward": ([], [])}
    for _ in range(_ROUNDS):
        for way, (before, after) in times.items():
            before.append(getattr(wide, way)())
            after.append(getattr(narrowed, way)())
    ratios = {way: min(after) / min(before) for way, (before, after) in times.items()}
    return {**ratios, "elements": wide.result.numel(), "wide_us": min(times["forward"][0]) * 1e6}


class _Form:
    """One call in one number format."""

    def __init__(self, call, one, dtype):
        self._call = call
        self._options = one["options"]
        self._tensors = [
            torch.full(size, 0.01, dtype=dtype, device="cpu", requires_grad=True) for size in one["inputs"]
        ]
        self._gradient = None
        self.result = None

    def forward(self):
        """Seconds of the call itself."""
        began = _clock()
        self.result = self._call(self._tensors, self._options)
        return _clock() - began

    def backward(self):
        """Seconds of the gradients of everything that went in."""
        if self._gradient is None:
            self._gradient = torch.full_like(self.result, 0.01)
        began = _clock()
        torch.autograd.grad(self.result, self._tensors, self._gradient, retain_graph=True)
        return _clock() - began
