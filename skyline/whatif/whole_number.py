"""Values of what-ifs that count something."""

from __future__ import annotations

from skyline.errors import UsageError

MOST = 1_000_000_000
"""No batch, number of processes or size in MB comes near; sums of bytes still fit into 64 bits."""
MOST_AT_ONCE = 1024
"""Of what is simulated one by one, such as worker processes and parts of a batch: more would not fit into memory."""


def whole_number(name: str, value: str, least: int = 1, most: int = MOST) -> int:
    """A value of at least ``least`` and at most ``most``.

    Raises:
        UsageError: it is not one.
    """
    try:
        number = int(value)
    except ValueError:
        # Text, or more digits than Python reads.
        number = most + 1 if value.strip("+").isdecimal() else least - 1
    if number > most:
        raise UsageError(
            f"{name}={_brief(value)} is too large", hint=f"Give a whole number up to {most:,}: {name}=64."
        )
    if number < least:
        raise UsageError(
            f"{name}={value} is not possible", hint=f"Give a whole number from {least}: {name}=2."
        )
    return number


def _brief(value: str) -> str:
    return value if len(value) <= 24 else f"{value[:20]}… ({len(value)} digits)"
