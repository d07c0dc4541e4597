"""The cost of an optimizer step that updates all tensors at once, and the memory that steps take for themselves."""

from __future__ import annotations

import numpy as np

from skyline.graph.part import Part
from skyline.interval import Interval
from skyline.trace.facts import OptimizerFact
from skyline.whatif.cost.optimizer_step import moved_bytes, update_of
from skyline.whatif.subject import MemoryChange, Subject

HAS_FOREACH = frozenset(
    {
        *(
            "Adam",
            "AdamW",
            "SGD",
            "Adagrad",
            "RMSprop",
            "Adadelta",
            "NAdam",
            "RAdam",
            "Adamax",
            "Rprop",
            "ASGD",
        ),
    }
)
_HELD = {"SGD": 0.0, "Adagrad": 2.0}
"""Intermediate results held together, over the parameters' own bytes; 1 where it is not said (PyTorch's manual).

Adagrad holds the roots of its sums and the gradients times the learning rate.
"""
_CALLS_ON_CPU = (0.45, 0.3, 0.85)
"""The rest of Python and calls on a CPU, where the operators still go tensor by tensor but not through Python.

The step of 600 tiny tensors took 0.45 times as long, that of a small transformer 0.91 times with its traffic
(PyTorch 2.13).
"""
CALLS_ON_GPU = (0.1, 0.05, 0.3)
"""About ten calls for each 30 to 100 tensors in place of ten for each."""


def foreach_ms(baseline: Subject, chosen: tuple[OptimizerFact, ...]) -> Interval:
    """Time of the optimizer part on a CPU with the chosen optimizers stepping all their tensors at once."""
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    weights = {
        id(fact): fact.tensor_count * max(1, fact.steps_per_iteration) for fact in baseline.script.optimizers
    }
    share = sum(weights[id(fact)] for fact in chosen) / (sum(weights.values()) or 1)
    traffic_ms = baseline.step.traffic_share * now_ms
    calls_ms = (now_ms - traffic_ms) * share
    more_ms = traffic_ms * _more_traffic(baseline, chosen)
    value, low, high = (now_ms + more_ms - calls_ms * (1.0 - part) for part in _CALLS_ON_CPU)
    # Results that lay in a cache are now written and read again.
    return Interval(value, low - 0.1 * traffic_ms, high + 0.3 * traffic_ms * share)


def _more_traffic(baseline: Subject, chosen: tuple[OptimizerFact, ...]) -> float:
    """Additional traffic of the chosen optimizers, over that of all now."""
    return more_bytes(chosen) / (sum(map(moved_bytes, baseline.script.optimizers)) or 1)


def more_bytes(chosen: tuple[OptimizerFact, ...]) -> float:
    """Additional bytes that the chosen optimizers move in an iteration, for all tensors at once."""
    known = [(fact, update) for fact in chosen if (update := update_of(fact)) is not None]
    return sum(moved_bytes(fact) * (update.foreach_factor - 1) for fact, update in known)


def temporary_bytes(chosen: tuple[OptimizerFact, ...]) -> float:
    """Bytes that the steps hold at once for all tensors together, float32."""
    return max(4.0 * fact.parameter_count * _HELD.get(fact.name, 1.0) for fact in chosen)


def step_memory(baseline: Subject, temporary: float) -> MemoryChange | None:
    """The peak with optimizer steps that take ``temporary`` bytes for themselves in place of what they take now."""
    levels = baseline.levels
    if levels is None or any(update_of(fact) is None for fact in baseline.script.optimizers if not temporary):
        return None
    # Memory of a step: the level without it, wherever it is under way.
    without = levels.live - levels.stepping
    under_way = without[levels.stepping > 0]
    in_step = (
        float(under_way.max(initial=0.0)) if len(under_way) else float(baseline.script.memory.total_bytes)
    )
    now, rest = float(levels.live.max()), float(without.max())
    then = max(rest, in_step + temporary)
    change = then - now
    if abs(change) < 1.0:
        return None
    if change > 0:
        return lambda memory: memory.more("other", Interval.exact(change))
    return lambda memory: memory.less("other", Interval.exact(min(-change, float(np.max(levels.stepping)))))
