"""Other execution configs of the script, and calls of single operators on tensors of its sizes."""

from __future__ import annotations

import time

import torch
from torch.nn import functional
from torch.utils import _python_dispatch

# Bound at import, before the script can replace it.
_clock = time.perf_counter

_UNDER_AUTOCAST = (None, "closure")
"""The parts of an iteration that run under autocast: all except loading, backward passes and updates."""


class ExecutionConfig:
    """Applies the number of threads and the autocast format that ``change`` set last."""

    def __init__(self):
        self._number_format = ""
        self._autocast = None

    def change(self, threads, number_format):
        """Compute on this number of threads from now on, and under autocast in this format unless it is empty."""
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
            # Leaving autocast also drops its cache of cast weights, which the next update would make stale.
            autocast, self._autocast = self._autocast, None
            autocast.__exit__(None, None, None)


def _kronecker_linear(given, first, second, bias):
    """A linear layer with the weight ``kron(first, second)``, as ``skyline apply kronecker`` writes it."""
    parts = given.unflatten(-1, (first.shape[1], -1))
    made = functional.linear(functional.linear(parts, second).transpose(-1, -2), first)
    return made.transpose(-1, -2).flatten(-2) + bias


_CALLS = {
    "kronecker linear": _kronecker_linear,
    "kronecker weight": torch.kron,
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


_SHORT_MS = 5.0
"""A call with a shorter forward and backward pass is timed when it is called for the second time in a turn."""


class Products:
    """Single operators of the script; the tensors of the last operator are kept for its next turn."""

    def __init__(self):
        self._asked = None
        self._forms = {}

    def turn(self, asked, threads, number_format):
        """One forward and backward pass as a row of ``BareSteps``, and the number of elements in the result.

        ``(None, 0)`` if the operator cannot be called in this way. Draws no random numbers and uses no tensor of the
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
            # The operator needs other arguments as well, or does not support this format.
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
        """Time the call, then the gradients of all inputs, with threads that are awake, as within an iteration."""
        row = self._passes()
        # Threads sleep between two turns. To wake them takes some 50 us, which is noticeable in a short call.
        return self._passes() if row["step_ms"] < _SHORT_MS else row

    def _passes(self):
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
