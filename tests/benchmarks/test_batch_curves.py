"""The choice of held-out batch sizes, and their page."""

from __future__ import annotations

from skyline.interval import Interval


def test_the_middle_of_the_widest_gap_and_twice_the_largest_are_held_out() -> None:
    from batch_curves import held_out

    assert held_out((8, 32, 64), None) == [16, 128]
    assert held_out((8, 16, 64), 100) == [32]
    assert held_out((1, 2, 3), None) == [6]


def test_the_page_counts_rows_with_a_steady_null_only() -> None:
    from batch_curves import HeldOut, page
    from whatifs import Row, Said

    def one(size: int, ratio: float, null: float) -> HeldOut:
        said = Said((f"batch_size={size}",), ratio, 0.9 * ratio, 1.1 * ratio, size / 32, 110e6, "modelled")
        row = Row("a/train.py", said, Interval(2.0, 1.9, 2.1), Interval(null, null, null), 100_000_000)
        return HeldOut(row, (8, 32, 64), size, 32, 60_000_000)

    text = page([one(128, 2.2, 1.0), one(16, 9.0, 1.5)])
    assert "1 of 2 rows" in text
    assert "| beyond by twice | 1     | 10.0%" in text
    assert "350.0%" not in text.split("| held out        | sizes")[1]
    assert "+10.0%" in text
