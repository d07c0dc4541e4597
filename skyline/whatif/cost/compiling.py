"""What ``torch.compile`` costs: once for compiling, and in each iteration for calling what was compiled."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.whatif.cost.fusion import Regions
from skyline.whatif.subject import Subject

FORWARD_CALL_US = 110.0
"""Calling a compiled forward graph: checking its guards, and passing tensors in and out through autograd."""
BACKWARD_CALL_US = 170.0
KERNEL_CALL_US = 7.0
"""Launching one kernel from the code that is generated around the kernels."""
CPU_CALL_US = 10.0
"""On a CPU: calling one piece of generated code, or a library's product, from the Python around them."""
# Seconds of one processor core, by ``benchmarks/compile_cost.py``.
_START_S = 12.0
"""Loading the compiler, and its first run with the headers of PyTorch."""
_PER_KERNEL_S = 0.6
_PER_OPERATOR_S = 0.035
_PER_GRAPH_S = 0.5
_RANGE = (0.4, 2.5)
"""Caches are warm and cores many, or the machine is slow."""
_TUNING = 5.0


def compiling_s(found: Regions, subject: Subject, *, tuned: bool = False) -> Interval:
    """Seconds until the first iterations are compiled, from how much there is to compile.

    Measured on CPUs only, where C++ is generated; with ``tuned`` kernels are tried out besides.
    """
    steps = max(1, subject.steps)
    graphs = max(1.0, len(found.entries) / steps)
    seconds = (
        _START_S
        + _PER_KERNEL_S * found.kernels
        + _PER_OPERATOR_S * found.operators
        + _PER_GRAPH_S * (graphs - 1)
    )
    if tuned:
        seconds *= _TUNING
    return Interval(seconds, _RANGE[0] * seconds, _RANGE[1] * seconds)
