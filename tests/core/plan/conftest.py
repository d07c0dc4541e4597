from __future__ import annotations

import pytest

from skyline.interval import Interval
from skyline.predict.operator_time import OperatorTime


class Counted:
    """A microsecond for each 1e8 FLOP or 1e6 bytes, whichever is more."""

    name = "counted"

    def basis(self, device):
        return "counting"

    def predict(self, shapes, device):
        times = [max(shape.flops / 1e8, shape.bytes_moved / 1e6) for shape in shapes]
        return [OperatorTime(Interval.exact(time), measured=True) for time in times]


@pytest.fixture(scope="session")
def counted():
    return Counted()
