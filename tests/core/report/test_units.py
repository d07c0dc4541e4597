from __future__ import annotations

import pytest

from skyline import units
from skyline.interval import Interval


@pytest.mark.parametrize(
    ("value_ms", "text"),
    [
        (182.4, "182.4 ms"),
        (41.0, "41.0 ms"),
        (5.1, "5.10 ms"),
        (0.25, "0.25 ms"),
        (1234.5, "1234 ms"),
        (9999.4, "9999 ms"),
        (10_000.0, "10.0 s"),
        (123_456.0, "123.5 s"),
        (0.0999, "99.9 µs"),
        (0.0021, "2.10 µs"),
        (0.0, "0 ms"),
    ],
)
def test_milliseconds(value_ms: float, text: str) -> None:
    assert units.format_ms(value_ms) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.9e9, "1.9 GB"),
        (24e9, "24.0 GB"),
        (137.4e9, "137 GB"),
        (312e6, "312 MB"),
        (18.44e6, "18.4 MB"),
        (999.96e6, "1.0 GB"),
        (640e3, "640 kB"),
        (12, "12 B"),
        (0, "0 B"),
        (2.5e12, "2.5 TB"),
    ],
)
def test_bytes(value: float, text: str) -> None:
    assert units.format_bytes(value) == text


def test_memory_against_capacity_names_the_unit_once_where_it_is_the_same() -> None:
    assert units.format_bytes_of(1.9e9, 24e9) == "1.9 of 24.0 GB"
    assert units.format_bytes_of(312e6, 24e9) == "312 MB of 24.0 GB"
    assert units.format_bytes_of(312e6, None) == "312 MB"


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(182.4, 180.3, 184.5), "182.4 ms ±2.1"),
        (Interval(182.4, 182.4, 182.4), "182.4 ms"),
        # A spread below the last digit says nothing.
        (Interval(182.4, 182.38, 182.42), "182.4 ms"),
        (Interval(182.4, 182.34, 182.46), "182.4 ms ±0.1"),
        (Interval(182.4, 182.399999, 182.4000001), "182.4 ms"),
        (Interval(0.05, 0.04, 0.06), "50.0 µs ±10.0"),
    ],
)
def test_intervals(interval: Interval, text: str) -> None:
    assert units.format_ms_interval(interval) == text


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (-5.1, 1.0, "-5.1 ±1.0"),
        (22.0, 3.0, "+22.0 ±3.0"),
        (0.0, 0.0, "0.0"),
        (-0.21, 0.0, "-0.2"),
        (-0.004, 2.0, "0.0 ±2.0"),
    ],
)
def test_changes_are_signed_unless_they_round_to_nothing(value: float, spread: float, text: str) -> None:
    scale = units.UnitScale("ms", 1.0, 1)
    assert scale.change_with_spread(Interval(value, value - spread, value + spread)) == text


def test_a_wide_and_lopsided_interval_is_shown_as_a_range() -> None:
    interval = Interval(1323.0, 610.0, 5660.0)
    assert units.format_ms_interval(interval) == "1323 ms (610–5660)"
    scale = units.UnitScale("ms", 1.0, 0)
    assert scale.change_with_spread(Interval(-77.0, -790.0, 4260.0)) == "-77 (-790 to +4260)"


def test_byte_changes() -> None:
    assert units.format_bytes_delta(-1.1e9) == "-1.1 GB"
    assert units.format_bytes_delta(312e6) == "+312 MB"
    assert units.format_bytes_delta(0) == "same"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.22, "22 %"), (0.094, "9.4 %"), (0.0996, "10 %"), (1.0, "100 %"), (0.0, "0 %"), (0.0001, "<0.1 %")],
)
def test_shares(share: float, text: str) -> None:
    assert units.format_share(share) == text


def test_throughput() -> None:
    assert units.format_throughput(175.4) == "175 samples/s"
    assert units.format_throughput(8.25) == "8.25 samples/s"
    assert units.format_throughput_interval(Interval(175.0, 173.0, 177.0)) == "175 samples/s ±2"


def test_a_column_shares_unit_and_decimals() -> None:
    scale = units.time_scale([0.02, 41.0, 182.4])
    assert [scale.number(value) for value in (0.02, 41.0, 182.4)] == ["0.0", "41.0", "182.4"]


@pytest.mark.parametrize("half", [1e-7, 1e-5, 1e-3, 0.04, 0.06, 1.0])
@pytest.mark.parametrize("value", [8.4e6, 10.6e6, 1.9e9, 600.0])
def test_no_spread_is_finer_than_its_number(value: float, half: float) -> None:
    for scale in (units.byte_scale([value]), units.rate_scale([value]), units.time_scale([value])):
        spread = half / scale.factor
        text = scale.interval(Interval(value, value - spread, value + spread))
        number, _, after = text.partition("±")
        decimals = len(number.split()[0].partition(".")[2])
        assert "e-" not in text
        assert not after or (len(after.partition(".")[2]) == decimals and float(after) > 0), text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.27, "+27.0 %"),
        (-0.028, "-2.8 %"),
        (8.9, "+890 %"),
        (70.94, "72x"),
        (9.0, "10x"),
        (-0.99, "-99.0 %"),
        (0.0, "0.0 %"),
    ],
)
def test_a_change_of_many_times_is_a_factor(share: float, text: str) -> None:
    assert units.format_share_delta(share) == text


def test_a_ratio_with_its_range() -> None:
    assert units.format_ratio_range(Interval(1.3, 1.21, 1.4)) == "1.30x (1.21–1.40x)"
    assert units.format_ratio_range(Interval(71.0, 9.0, 140.2)) == "71x (9.00–140x)"
    assert units.format_ratio_range(Interval(1.3, 1.299, 1.301)) == "1.30x"
