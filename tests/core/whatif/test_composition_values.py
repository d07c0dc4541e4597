"""The values that an answer about one what-if offers."""

from __future__ import annotations

import pytest

from skyline.whatif.base import Applicability
from skyline.whatif.composition import _values


@pytest.mark.parametrize(
    ("offered", "asked", "values"),
    [
        (("1", "2", "4"), "2", ("1", "2", "4")),
        (("1", "2", "8"), "6", ("1", "2", "6", "8")),
        (("", "foreach"), "", ("", "foreach")),
        (("bf16", "fp16"), "fp16", ("bf16", "fp16")),
        (("bf16",), "bf16", ()),
        ((), "", ()),
    ],
)
def test_values_are_those_offered_and_the_one_asked_for(
    offered: tuple[str, ...], asked: str, values: tuple[str, ...]
) -> None:
    assert _values(Applicability(True, values=offered), asked) == values


def test_what_does_not_apply_offers_nothing() -> None:
    assert _values(Applicability(False, "nothing ran on a GPU", ("2", "4")), "2") == ()
