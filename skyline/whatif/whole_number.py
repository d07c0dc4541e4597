"""Values of what-ifs that count something."""

from __future__ import annotations

from skyline.errors import UsageError


def whole_number(name: str, value: str, least: int = 1) -> int:
    """A value of at least ``least``.

    Raises:
        UsageError: it is not one.
    """
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise UsageError(
            f"{name}={value} is not possible", hint=f"Give a whole number from {least}: {name}=2."
        )
    return number
