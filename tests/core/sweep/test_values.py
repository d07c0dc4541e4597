import pytest

from skyline.errors import UsageError
from skyline.sweep.values import Varied, combinations, spread_out, values_of


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("64,128,256", (64, 128, 256)),
        ("256, 64,64", (64, 256)),
        ("64", (64,)),
        ("64:256:64", (64, 128, 192, 256)),
        ("64:250:64", (64, 128, 192)),
        ("64:1024:x2", (64, 128, 256, 512, 1024)),
        ("10:40:x1.5", (10, 15, 22, 34)),
        ("64:1024:/5", (64, 304, 544, 784, 1024)),
        ("1:3:/9", (1, 2, 3)),
        ("0:0.3:0.1", (0.0, 0.1, 0.2, 0.3)),
        ("0.1,0.2", (0.1, 0.2)),
        ("-2:2:2", (-2, 0, 2)),
    ],
)
def test_ranges_and_lists(text: str, values: tuple[float, ...]) -> None:
    found = values_of(text)
    assert found == values
    assert [type(one) for one in found] == [type(one) for one in values]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b", "is not a number"),
        ("64:1024", "is not a range"),
        ("64::8", "is not a range"),
        ("64:128:8:2", "is not a range"),
        ("128:64:8", "ends at its start"),
        ("64:128:0", "has a step of 0"),
        ("64:128:-8", "has a step of -8"),
        ("64:128:x1", "does not grow"),
        ("0:128:x2", "does not grow"),
        ("64:128:/1", "no usable number of values"),
        ("1:1000000000000:1", "1,000 are the limit"),
        ("64:128:nan", "is not a number"),
        ("1:2:xx", "is not a number"),
    ],
)
def test_other_text_is_refused_with_the_forms(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        values_of(text)
    assert raised.value.hint


def test_a_setting_needs_values() -> None:
    assert Varied.parse("Net.width@3=1,2").values == (1, 2)
    for text in ("width", "width=", "=1,2"):
        with pytest.raises(UsageError):
            Varied.parse(text)


def test_every_combination_in_order() -> None:
    varied = [Varied.parse("a=1,2"), Varied.parse("b=3,4")]
    assert combinations(varied) == ((1, 3), (1, 4), (2, 3), (2, 4))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 16, 17, 100])
def test_the_range_is_covered_early(count: int) -> None:
    order = spread_out(count)
    assert sorted(order) == list(range(count))
    assert order[: min(2, count)] == (0, count - 1)[: min(2, count)]


def test_the_middle_follows_the_ends() -> None:
    assert spread_out(9)[:5] == (0, 8, 4, 2, 6)
