"""The value that a change is asked for with, read from text."""

from __future__ import annotations

from skyline.errors import RewriteRefused

_ON = ("", "true", "1", "yes", "on")


def check_switched_on(name: str, value: str) -> None:
    """Refuses anything but "on", for changes that are made or not."""
    if value.lower() not in _ON:
        raise RewriteRefused(f"{value!r} is not a value for {name}", hint="Give the name alone.")


def whole_number(name: str, value: str, least: int = 1) -> int:
    """The number that a change is asked for with; refused where it is not one, or too small."""
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if number < least:
        raise RewriteRefused(
            f"{value!r} is not a value for {name}", hint=f"Give a whole number from {least}."
        )
    return number
