"""Values of what-ifs that count something."""

from __future__ import annotations

from skyline.errors import UsageError


def whole_number(name: str, value: str) -> int:
    """A value of at least 1.

    Raises:
        UsageError: it is not one.
    """
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number < 1:
        raise UsageError(f"{name}={value} is not possible", hint=f"Give a whole number from 1: {name}=2.")
    return number
