from __future__ import annotations

import pytest

from skyline.interval import Interval
from skyline.predict.energy import energy_kwh, power_watts
from skyline.predict.gpu_spec import GpuSpec


def test_a_busy_gpu_draws_more_and_never_beyond_its_limit(gpu: GpuSpec):
    waiting, half, busy = (power_watts(gpu, share) for share in (0.0, 0.5, 1.0))
    assert waiting.value < half.value < busy.value
    assert half.value == pytest.approx((waiting.value + busy.value) / 2)
    assert busy.high <= gpu.board_power_watts
    assert waiting.low > 0
    assert power_watts(gpu, 1.7) == busy


def test_energy_is_power_times_time(gpu: GpuSpec):
    exact = energy_kwh(Interval.exact(250.0), Interval.exact(7200.0))
    assert (exact.value, exact.low, exact.high) == pytest.approx((0.5, 0.5, 0.5))


def test_energy_is_less_sure_than_power_or_time_alone_but_not_beyond_both():
    power, time_s = Interval(100.0, 60.0, 130.0), Interval(3600.0, 1800.0, 7200.0)
    found = energy_kwh(power, time_s)
    assert found.value == pytest.approx(0.1)
    assert power.low * time_s.low / 3.6e6 <= found.low < 0.05
    assert 0.2 < found.high <= power.high * time_s.high / 3.6e6
    nothing = energy_kwh(power, Interval.exact(0.0))
    assert (nothing.value, nothing.high) == (0.0, 0.0)
