from __future__ import annotations

import pytest

from skyline.memory.size import size_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("24GB", 24_000_000_000),
        ("24 gb", 24_000_000_000),
        ("24GiB", 24 * 2**30),
        ("1.5TB", 1_500_000_000_000),
        (" 512 MiB ", 512 * 2**20),
        (".5gb", 500_000_000),
    ],
)
def test_a_number_with_its_unit(text: str, size: int) -> None:
    assert size_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("24", "without a unit"),
        ("24 G", "G is not a unit"),
        ("24e3GB", "not a number and a unit"),
        ("-24GB", "not a number and a unit"),
        ("", "not a number and a unit"),
        ("GB", "not a number and a unit"),
        ("24 potatoes", "potatoes is not a unit"),
        ("1MB", "so little or so much"),
        ("100TB", "so little or so much"),
        ("9" * 400 + "GB", "not a number and a unit"),
    ],
)
def test_what_is_no_size_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        size_bytes(text)
