"""Other execution configs of the script, and single operators called by themselves on tensors of its sizes."""

from __future__ import annotations

import time

import torch
from torch.nn import functional
from torch.utils import _python_dispatch

# Kept from before the script could put something else in its place.
_clock = time.perf_counter

_UNDER_AUTOCAST = (None, "closure")
"""The parts of an iteration that a script runs under autocast: all but loading, backward passes and updates."""


class ExecutionConfig:
    """The number of threads and the format of autocast that ``change`` set last."""

    def __init__(self):
        self._number_format = ""
        self._autocast = None

    def change(self, threads, number_format):
        """Compute on so many threads from now on, and under autocast in that format unless it is empty."""
        self.follow("boundary")
        torch.set_num_threads(threads)
        self._number_format = number_format
        self.follow(None)

    def follow(self, part):
        """Enter ``part`` of the iteration; None is the rest, outside the named parts."""
        wanted = bool(self._number_format) and part in _UNDER_AUTOCAST
        if wanted == (self._autocast is not None):
            return
        if wanted:
            self._autocast = torch.autocast("cpu", dtype=getattr(torch, self._number_format))
            self._autocast.__enter__()
        else:
            # Leaving it also drops the cast weights, which the next update changes.
            autocast, self._autocast = self._autocast, None
            autocast.__exit__(None, None, None)


_CALLS = {
    "aten::linear": functional.linear,
    "aten::matmul": torch.matmul,
    "aten::mm": torch.mm,
    "aten::bmm": torch.bmm,
    "aten::addmm": torch.addmm,
    "aten::conv1d": functional.conv1d,
    "aten::conv2d": functional.conv2d,
    "aten::conv3d": functional.conv3d,
    "aten::scaled_dot_product_attention": functional.scaled_dot_product_attention,
}


class Products:
    """Single operators of the script; the tensors of the last one stay from turn to turn."""

    def __init__(self):
        self._asked = None
        self._forms = {}

    def turn(self, asked, threads, number_format):
        """One forward and one backward pass as a row of ``BareSteps``, and the number of elements of the result.

        ``(None, 0)`` where the operator cannot be called so. Draws no random numbers and touches no tensor of the
        script.
        """
        if _python_dispatch._len_torch_dispatch_stack() > 0:
            return None, 0
        if asked != self._asked:
            self._asked, self._forms = asked, {}
        own_threads = torch.get_num_threads()
        try:
            torch.set_num_threads(threads)
            with torch.enable_grad(), torch.autocast("cpu", enabled=False):
                if number_format not in self._forms:
                    self._forms[number_format] = _Form(asked, getattr(torch, number_format))
                form = self._forms[number_format]
                return form.turn(), form.result.numel()
        except (RuntimeError, TypeError, ValueError):
            # It needs arguments that its sizes do not show, or does not support this format.
            return None, 0
        finally:
            torch.set_num_threads(own_threads)


class _Form:
    """One call in one number format."""

    def __init__(self, asked, dtype):
        self._call = _CALLS[asked["operator"]]
        self._options = asked["options"]
        self._tensors = [
            torch.full(size, 0.01, dtype=dtype, device="cpu", requires_grad=True) for size in asked["inputs"]
        ]
        self._gradient = None
        self.result = None

    def turn(self):
        """The call itself, then the gradients of all inputs."""
        began = _clock()
        self.result = self._call(*self._tensors, **self._options)
        forward_s = _clock() - began
        if self._gradient is None:
            self._gradient = torch.full_like(self.result, 0.01)
        began = _clock()
        torch.autograd.grad(self.result, self._tensors, self._gradient, retain_graph=True)
        backward_s = _clock() - began
        return {
            "step_ms": 1e3 * (forward_s + backward_s),
            "data_ms": 0.0,
            "backward_ms": 1e3 * backward_s,
            "optimizer_ms": 0.0,
            "fetches": 0,
            "backward_calls": 1,
        }
