"""What the script's own thread spends on each operator while the GPU computes: it cannot be traced without running."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from skyline.interval import Interval
from skyline.trace.phase import Phase
from skyline.trace.record import Record, RecordKind
from skyline.trace.shape import OperatorShape

_BYTES_PER_US = 8e3
_FLOP_PER_US = 5e4
"""What one thread of an ordinary server processor moves and computes: the order of magnitude is what counts."""
_UNSURE = (0.5, 2.0)


@dataclass(frozen=True, slots=True)
class HostCost:
    """Typical times of PyTorch 2 on a server processor in µs; another host is up to twice as fast or slow.

    ``launch_us`` is one operator that launches a kernel, from Python through dispatch to the launch itself: about
    7 µs per operator were measured on the host of an H100. ``operator_us`` is one that launches none. ``backward_us``
    and ``optimizer_us`` stand for ``launch_us`` in those phases, where that is known.
    """

    launch_us: float = 7.0
    operator_us: float = 2.0
    wait_us: float = 5.0
    launch_latency_us: float = 4.0
    turnaround_us: float = 1.0
    synchronous: bool = False
    """Whether the host does the operators' work itself, as where the device is a processor."""
    backward_us: float | None = None
    optimizer_us: float | None = None

    def of(self, record: Record, shape: OperatorShape | None) -> Interval:
        """Of one record on the host, without what it waits for."""
        if record.kind is RecordKind.RUNTIME:
            value = self._launch(record.phase) if record.correlation else self.wait_us
        elif shape is None:
            value = self.operator_us
        else:
            moved = shape.bytes_moved or 4 * sum(prod(dimensions) for dimensions in shape.outputs)
            value = self.operator_us + max(moved / _BYTES_PER_US, shape.flops / _FLOP_PER_US)
        return Interval(value, value * _UNSURE[0], value * _UNSURE[1])

    def _launch(self, phase: Phase) -> float:
        own = {Phase.BACKWARD: self.backward_us, Phase.OPTIMIZER: self.optimizer_us}.get(phase)
        return self.launch_us if own is None else own
