"""The cost of an optimizer step: calls per tensor, bytes per parameter, and temporary memory."""

from __future__ import annotations

from collections.abc import Mapping

from skyline.graph.task import Part
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import OptimizerFact
from skyline.whatif.subject import Subject

TRAFFIC_UNCERTAINTY = (0.4, 1.9)
"""Ratio of the fused traffic time to the modelled one, low and high: caches help the two forms differently."""
FIXED_US = 50.0
"""The fused call itself and the grouping of tensors by device and type, per optimizer."""


@dataclass(frozen=True, slots=True)
class Update:
    """Bytes read and written per float32 parameter by one step, operator by operator and fused.

    ``foreach_bytes`` is the traffic of the form for all tensors at once; 0 if it equals ``unfused_bytes``.
    ``fresh_bytes`` is the part of ``unfused_bytes`` moved by operators that write to newly allocated memory.
    ``fused_calls`` is the cost of a tensor in the fused form, in units of the cheapest operator call:
    grouping it, and counting its step if there is a counter.
    """

    unfused_bytes: int
    fused_bytes: int
    fused_calls: int = 2
    foreach_bytes: int = 0
    fresh_bytes: int = 0

    @property
    def in_place_bytes(self) -> int:
        """Bytes moved by operators that write in place."""
        return self.unfused_bytes - self.fresh_bytes

    @property
    def foreach_factor(self) -> float:
        """Ratio of the traffic of the form for all tensors at once to the traffic operator by operator."""
        return (self.foreach_bytes or self.unfused_bytes) / self.unfused_bytes

    @property
    def saves_traffic(self) -> bool:
        """True if fusing moves fewer bytes; a plain SGD update is already a single pass."""
        return self.fused_bytes < self.unfused_bytes


_ADAM = Update(72, 28, fresh_bytes=16)
"""Operators: lerp 12, mul 8, addcmul 12, sqrt 8, div 8 (these two to fresh memory), add 8, addcdiv 16.

Fused: read p, g, m, v; write p, m, v."""
_ADAMW = Update(80, 28, fresh_bytes=16)
"""As Adam, and a mul of 8 for the decay."""
_SGD_MOMENTUM = Update(32, 20, 1)
"""Operators: mul 8, add 12, add 12. Fused: read p, g, buffer; write p, buffer."""
_SGD = Update(12, 12, 1)
_ADAGRAD = Update(48, 20, foreach_bytes=60, fresh_bytes=12)
"""Operators: addcmul 12, sqrt 12 (to fresh memory; newly written memory is read first, too), add 8, addcdiv
16.

Fused: read p, g, sum; write p, sum. The form for all tensors at once multiplies the gradients by the learning
rate into new memory, 12 bytes more. The operator of a single tensor includes this multiplication.
"""


def update_of(optimizer: OptimizerFact) -> Update | None:
    """The costs of one of PyTorch's own optimizers; None for any other."""
    if optimizer.name == "SGD":
        return _SGD_MOMENTUM if optimizer.state_bytes >= optimizer.parameter_count else _SGD
    return {"Adam": _ADAM, "AdamW": _ADAMW, "Adagrad": _ADAGRAD}.get(optimizer.name)


def unfused_ms(baseline: Subject, left: float = 1.0) -> float:
    """The optimizer time in ms for ``left`` times the parameters in as many tensors: the traffic grows with them."""
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    return now_ms * (1 + (left - 1) * baseline.step.traffic_share)


def fused_ms(
    baseline: Subject, chosen: tuple[tuple[OptimizerFact, Update], ...], left: float = 1.0
) -> Interval:
    """The optimizer time in ms on a CPU with the chosen optimizers fused, for ``left`` times the parameters.

    The time of recorded operators beyond the cost of a bare call is memory traffic; it shrinks with the
    bytes. Python and calls shrink to a call or two per tensor. Both are scaled to the bare optimizer time. A
    fused step allocates no memory, so its rate comes from in-place operators if any were recorded.
    """
    now_ms = baseline.parts_ms[Part.OPTIMIZER] or baseline.phases.optimizer
    call_us = baseline.step.call_share * now_ms * 1e3
    optimizers = baseline.script.optimizers
    weights = {id(fact): moved_bytes(fact) for fact in optimizers}
    whole = sum(weights.values()) or 1
    share = sum(weights[id(fact)] for fact, _ in chosen) / whole
    # Optimizers that stay unfused keep all of their time.
    per_byte = _ms_per_byte(baseline, now_ms)
    fused_traffic = left * sum(
        per_byte * weights[id(fact)] * update.fused_bytes / update.unfused_bytes for fact, update in chosen
    )
    calls_us = sum(
        fact.steps_per_iteration * (fact.tensor_count * update.fused_calls * call_us + FIXED_US)
        for fact, update in chosen
    )
    calls_ms = calls_us / 1e3
    before_ms = unfused_ms(baseline, left)
    stay_ms = before_ms * (1 - share)
    low, high = (
        stay_ms + 0.6 * calls_ms + fused_traffic * TRAFFIC_UNCERTAINTY[0],
        stay_ms + 1.5 * calls_ms + fused_traffic * TRAFFIC_UNCERTAINTY[1],
    )
    value = min(before_ms, stay_ms + calls_ms + fused_traffic)
    return Interval(value, min(value, low), max(value, min(high, 1.1 * before_ms)))


def _ms_per_byte(baseline: Subject, now_ms: float) -> float:
    """The traffic time per byte, in ms: of in-place operators as recorded, at most the scaled mean of all."""
    optimizers = baseline.script.optimizers
    of_all = baseline.step.traffic_share * now_ms / (sum(map(moved_bytes, optimizers)) or 1)
    updates = [(fact, update) for fact in optimizers if (update := update_of(fact)) is not None]
    if len(updates) < len(optimizers) or baseline.step.in_place_us <= 0:
        return of_all
    in_place = sum(
        moved_bytes(fact) * update.in_place_bytes / update.unfused_bytes for fact, update in updates
    )
    return min(of_all, baseline.step.in_place_us / 1e3 / in_place) if in_place else of_all


def moved_bytes(fact: OptimizerFact) -> int:
    """Bytes that the steps of an iteration move, operator by operator."""
    update = update_of(fact)
    return max(1, fact.steps_per_iteration) * fact.parameter_count * (update.unfused_bytes if update else 80)


def temporary_factor(subject: Subject, largest: Mapping[str, int], share: float) -> float:
    """Ratio of a step's temporary memory to the present one, if this share of the parameters is removed.

    A step that handles all tensors at once, the default on a GPU, holds results for all of them. A step that
    handles them one after another holds the results of the largest tensor. ``largest`` is the number of
    parameters of the largest new tensor, by path of the changed module.
    """
    asked = [fact.options.get("foreach") for fact in subject.script.optimizers] or [None]
    if any(subject.on_gpu if one is None else one for one in asked):
        return max(0.0, 1 - share)
    modules = subject.script.modules
    now = max((one.parameter_count for one in modules), default=0)
    then = max((largest.get(one.path, one.parameter_count) for one in modules), default=0)
    return then / now if now else 1.0
