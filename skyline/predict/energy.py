"""Energy and carbon dioxide of an iteration on a GPU whose power cannot be measured here.

A GPU draws a share of its board's power limit that depends on whether a kernel runs. The shares are
assumptions with a wide range: a node of eight H100 drew 76 % of its rating during training (arXiv
2506.14551); idle boards at high clocks draw a tenth to two fifths. Only the GPU's board counts, without host,
network and cooling.
"""

from __future__ import annotations

from math import hypot
from typing import Annotated

import msgspec

from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.own_table import own_entries

COMPUTING = Interval(0.76, 0.5, 1.0)
"""Share of the board's power limit while a kernel runs."""
WAITING = Interval(0.2, 0.1, 0.4)
"""Share of the board's power limit between the kernels of a training run."""
WORLD_G_PER_KWH = 473.0
"""World average of carbon dioxide per electricity in 2024, in g/kWh (Ember, Global Electricity Review 2025)."""
_J_PER_KWH = 3.6e6


class _OwnEnergy(msgspec.Struct, forbid_unknown_fields=True):
    grid_g_per_kwh: Annotated[float, msgspec.Meta(ge=0, le=2000)]


def power_watts(gpu: GpuSpec, busy_share: float) -> Interval:
    """Average power of the board, in W, if a kernel runs for ``busy_share`` of the time."""
    busy = min(1.0, max(0.0, busy_share))

    def at(computing: float, waiting: float) -> float:
        return gpu.board_power_watts * (busy * computing + (1.0 - busy) * waiting)

    return Interval(
        at(COMPUTING.value, WAITING.value), at(COMPUTING.low, WAITING.low), at(COMPUTING.high, WAITING.high)
    )


def energy_kwh(power: Interval, time_s: Interval) -> Interval:
    """Energy of this power over this time, in kWh; errors of the two are assumed independent."""
    value = power.value * time_s.value
    if value <= 0:
        return Interval(0.0, 0.0, 0.0)
    below = hypot(1.0 - power.low / power.value, 1.0 - time_s.low / time_s.value)
    above = hypot(power.high / power.value - 1.0, time_s.high / time_s.value - 1.0)
    # The result must stay between the product of the low ends and the product of the high ends.
    least = power.low * time_s.low
    return Interval(value, max(least, value * (1.0 - below)), value * (1.0 + above)).scaled(1 / _J_PER_KWH)


def own_grid_g_per_kwh() -> float | None:
    """The user's own figure for their electricity, from ``[energy]`` in their devices file; None without one.

    Raises:
        UsageError: the file cannot be used.
    """
    entries = own_entries("energy")
    if not entries:
        return None
    return entries[0].converted(entries[0].values, _OwnEnergy).grid_g_per_kwh
