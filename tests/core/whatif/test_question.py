"""Questions as they come from outside: numbers in range, names and values."""

from __future__ import annotations

import pytest

from skyline.errors import UsageError
from skyline.whatif.question import MOST, Choice, Question, whole_number


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("0", "workers=0 is not possible"),
        ("-3", "workers=-3 is not possible"),
        ("many", "workers=many is not possible"),
        (str(MOST + 1), "workers=1000000001 is too large"),
        ("9" * 24, f"workers={'9' * 24} is too large"),
        ("9" * 25, f"workers={'9' * 20}… (25 digits) is too large"),
        ("9" * 9999, f"workers={'9' * 20}… (9999 digits) is too large"),
        ("+" + "9" * 9999, f"workers=+{'9' * 19}… (10000 digits) is too large"),
    ],
)
def test_numbers_out_of_range(value: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        whole_number("workers", value)
    assert refused.value.message == said
    assert refused.value.hint.startswith("Give a whole number")


@pytest.mark.parametrize("value", ["1", "+7", str(MOST)])
def test_numbers_in_range(value: str) -> None:
    assert whole_number("workers", value) == int(value)
    assert whole_number("workers", "0", least=0) == 0
    with pytest.raises(UsageError, match="up to 8"):
        whole_number("workers", "9", most=8)


def test_a_request_is_read_field_by_field() -> None:
    asked = Question.parse(32, ["amp", "num_workers = 2"])
    assert asked.all_choices == (Choice("batch_size", "32"), Choice("amp"), Choice("num_workers", "2"))
    assert Question.parse(None, []).all_choices == ()


@pytest.mark.parametrize("size", [0, -1, MOST + 1, pytest.param(10**9999, id="thousands of digits")])
def test_a_batch_size_that_none_can_be(size: int) -> None:
    with pytest.raises(UsageError, match="the batch size is out of range"):
        Question(size)
    assert Question(MOST).batch_size == MOST


def test_a_batch_size_among_choices_is_that_of_the_question() -> None:
    amp = Choice("amp", "bf16")
    assert Question.of((amp, Choice("batch_size", "64"))) == Question(64, (amp,))
    assert Question.of((amp,)) == Question(None, (amp,))
