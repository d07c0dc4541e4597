"""Times single operators in two number formats and on two numbers of threads, on tensors of the script's sizes."""

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


def tried(asked, number_format, other_threads, seconds):
    """A row for ``skyline.capture.product_trials.ProductTime`` for each operator that can be called.

    Starts none after ``seconds``. Draws no random numbers and touches no tensor of the script.
    """
    if _python_dispatch._len_torch_dispatch_stack() > 0:
        return []
    end, rows = _clock() + seconds, []
    with torch.enable_grad(), torch.autocast("cpu", enabled=False):
        for number, one in enumerate(asked):
            if _clock() >= end:
                break
            try:
                rows.append({"number": number, **_tried(one, getattr(torch, number_format), other_threads)})
            except (RuntimeError, TypeError, ValueError):
                # It needs arguments that its sizes do not show, or does not support this format.
                continue
    return rows


def _tried(one, narrow, other_threads):
    call = _CALLS[one["operator"]]
    forms = {"wide": _Form(call, one, torch.float32), "narrow": _Form(call, one, narrow)}
    times = {"forward": {}, "backward": {}}
    threads = torch.get_num_threads()
    _time(forms, times, "{}_us")
    if other_threads != threads:
        try:
            torch.set_num_threads(other_threads)
            _time(forms, times, "{}_otherwise_us")
        finally:
            torch.set_num_threads(threads)
    return {**times, "elements": forms["wide"].result.numel()}


def _time(forms, times, field):
    """The shortest time of several rounds, in each of which all forms have a turn."""
    for form in forms.values():
        # In the first calls the library chooses its kernels and lays out the weights.
        form.forward(), form.backward()
    for _ in range(_ROUNDS):
        for way, found in times.items():
            for name, form in forms.items():
                took_us = 1e6 * getattr(form, way)()
                place = field.format(name)
                found[place] = min(took_us, found.get(place, took_us))


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
        """Seconds of the gradients of all inputs."""
        if self._gradient is None:
            self._gradient = torch.full_like(self.result, 0.01)
        began = _clock()
        torch.autograd.grad(self.result, self._tensors, self._gradient, retain_graph=True)
        return _clock() - began
