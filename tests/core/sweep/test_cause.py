from skyline.interval import Interval
from skyline.sweep.cause import cause
from skyline.sweep.point import SweepPoint
from skyline.sweep.work import IterationWork


def point(**figures: object) -> SweepPoint:
    known: dict[str, object] = {
        "flops": 10**9,
        "ideal_ms": None,
        "operators": 100,
        "parameters": 0,
        **figures,
    }
    return SweepPoint((1,), Interval.exact(1.0), work=IterationWork(**known))  # type: ignore[arg-type]


def test_tiles_that_are_filled_less_are_named_with_the_lost_multiple() -> None:
    before, after = (
        point(tile_share=0.95, sizes=frozenset({512})),
        point(tile_share=0.7, sizes=frozenset({576})),
    )
    said = cause(before, after, 512, 576)
    assert said == "576 is not a multiple of 128, and results fill 70 % of their tiles instead of 95 %"


def test_rows_that_16_bytes_no_longer_divide() -> None:
    said = cause(point(aligned_share=1.0), point(aligned_share=0.2), 512, 513)
    assert said == "rows are multiples of 16 bytes in 20 % of the arithmetic instead of 100 %"


def test_a_wave_more() -> None:
    said = cause(point(wave_share=0.9), point(wave_share=0.5), 8, 9)
    assert "busy for 50 % of the time instead of 90 %" in said


def test_more_operators_are_a_cause_only_without_another() -> None:
    assert cause(point(), point(operators=200), 2, 3) == "200 operators run instead of 100"
    assert "operators" not in cause(point(wave_share=0.9), point(operators=200, wave_share=0.5), 2, 3)


def test_an_unknown_cause_is_said_to_be_unknown() -> None:
    before, after = point(sizes=frozenset({512})), point(sizes=frozenset({520}))
    assert cause(before, after, 512, 520) == "the cause is not known; 520 is not a multiple of 16, and 512 is"
    # The number is no size of any operand: its multiples mean nothing.
    assert cause(point(), point(), 512, 520) == ""
    assert cause(SweepPoint((1,), Interval.exact(1.0)), after, 512, 520) == ""
