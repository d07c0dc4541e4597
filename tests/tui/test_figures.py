from __future__ import annotations

import pytest
from textual.content import Content

from skyline.interval import Interval
from skyline_tui.figures import flow, memory_change, spread, tail, throughput_change


def test_a_change_reads_from_now_to_then() -> None:
    assert throughput_change(Interval(175, 173, 177), Interval(231, 222, 240)) == "175 → 231 samples/s ±9"
    assert memory_change(Interval.exact(1.9e9), Interval.exact(3.4e9)) == "1.9 → 3.4 GB"


def test_one_number_where_nothing_is_asked_and_a_word_where_nothing_is_known() -> None:
    assert memory_change(Interval.exact(1.9e9), None) == "1.9 GB"
    assert throughput_change(None, None) == "unknown"


@pytest.mark.parametrize("width", [10, 25, 40, 80])
def test_parts_fold_whole(width: int) -> None:
    parts = [Content("182.4 ms"), Content("175 smp/s"), Content("1.9 GB")]
    folded = flow(parts, width).plain
    assert all(part.plain in folded for part in parts)
    assert all(len(line) <= width for line in folded.splitlines())


def test_what_does_not_fit_beside_goes_below() -> None:
    assert spread(Content("train.py"), Content("live"), 20).plain == "train.py        live"
    assert spread(Content("train.py"), Content("live"), 12).plain == "train.py\nlive"


def test_code_loses_its_end() -> None:
    assert tail("optimizer.step()", 8) == "optimiz…"
    assert tail("step()", 8) == "step()"
