"""Cost of each operator on the script's own thread while the GPU computes: tracing by shape cannot measure it."""

from __future__ import annotations

from math import prod

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import OperatorShape, Phase, Record, RecordKind

_BYTES_PER_US = 8e3
_FLOP_PER_US = 5e4
"""Throughput of one thread of an ordinary server processor; only the order of magnitude matters."""
_FASTER = 0.5
"""Cost on the fastest hosts, as a multiple of the typical cost."""


@dataclass(frozen=True, slots=True)
class HostCost:
    """Typical times of PyTorch 2 on a server processor in µs; other hosts are up to twice as fast.

    ``launch_us`` is the time of an operator with a kernel launch, from Python through dispatch to the launch itself:
    about 7 µs per operator, measured on the host of an H100. ``operator_us`` is the time of one without a launch.
    ``backward_us`` and ``optimizer_us`` replace ``launch_us`` in those phases, if known.
    """

    launch_us: float = 7.0
    operator_us: float = 2.0
    wait_us: float = 5.0
    launch_latency_us: float = 4.0
    turnaround_us: float = 1.0
    synchronous: bool = False
    """True if the host does the operators' work itself, as for a processor as the device."""
    slower: float = 4.0
    """Cost on the slowest hosts, as a multiple of this cost: a virtual machine with an H200 needs 26 to 33 µs
    per kernel."""
    backward_us: float | None = None
    optimizer_us: float | None = None

    def of(self, record: Record, shape: OperatorShape | None) -> Interval:
        """Cost of one record on the host, without waiting."""
        if record.kind is RecordKind.RUNTIME:
            value = self._launch(record.phase) if record.correlation else self.wait_us
        elif shape is None:
            value = self.operator_us
        else:
            moved = shape.bytes_moved or 4 * sum(prod(dimensions) for dimensions in shape.outputs)
            value = self.operator_us + max(moved / _BYTES_PER_US, shape.flops / _FLOP_PER_US)
        return Interval(value, value * _FASTER, value * self.slower)

    def _launch(self, phase: Phase) -> float:
        own = {Phase.BACKWARD: self.backward_us, Phase.OPTIMIZER: self.optimizer_us}.get(phase)
        return self.launch_us if own is None else own
