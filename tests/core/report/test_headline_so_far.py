from __future__ import annotations

from skyline.interval import Interval
from skyline.report.basis import headline_so_far


def test_before_any_time_the_batch_size_alone_is_known() -> None:
    assert headline_so_far(64, None, None) == "batch 64 · measuring…"
    assert headline_so_far(None, None, None) == "measuring…"


def test_the_first_times_stand_with_their_spread() -> None:
    words = headline_so_far(32, Interval(182.4, 180.3, 184.5), Interval(175.4, 173.0, 177.0))
    assert words == "182.4 ms ±2.1 per iteration · 175 samples/s · measuring…"
    assert (
        headline_so_far(None, Interval(182.4, 180.3, 184.5), None)
        == "182.4 ms ±2.1 per iteration · measuring…"
    )
