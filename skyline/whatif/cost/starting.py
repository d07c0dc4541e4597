"""The cost of starting the workers of a data loader, which happens in each epoch unless they persist."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.trace.facts import Environment

_FORKING_MS, _EACH_MS = 22.0, 9.5
"""From asking for an epoch's first batch until it is there, beyond making it: 27 to 40, 38 to 46 and 56 to 69 ms
with 1, 2 and 4 workers that are forked (``benchmarks/worker_contention.py``)."""
_AFRESH_MS, _EACH_AFRESH_MS = 2500.0, 300.0
"""Where each worker is a fresh interpreter that imports the script and PyTorch again: seconds; not measured here."""


def start_ms(environment: Environment, workers: int) -> Interval:
    """Until workers deliver their first batch, beyond making it."""
    if workers <= 0:
        return Interval.exact(0.0)
    if starts_afresh(environment):
        typical = _AFRESH_MS + _EACH_AFRESH_MS * (workers - 1)
        return Interval(typical, 0.4 * typical, 3.0 * typical)
    # A process with more memory takes longer to fork, as its page tables are copied.
    typical = _FORKING_MS + _EACH_MS * workers
    return Interval(typical, 0.6 * typical, 2.5 * typical)


def starts_afresh(environment: Environment) -> bool:
    """True if worker processes start from nothing, not by a fork: not on Linux, and from Python 3.14 nowhere."""
    version = tuple(int(part) for part in environment.python.split(".")[:2] if part.isdigit())
    return not environment.platform.lower().startswith("linux") or version >= (3, 14)
