"""Memory sizes as a user writes them: a number with its unit."""

from __future__ import annotations

import re

_UNITS = {"mb": 10**6, "gb": 10**9, "tb": 10**12, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_LEAST, _MOST = 10**8, 10**13
FORMS = "24GB (24 billion bytes) or 24GiB (24 times 2^30 bytes)"


def size_bytes(text: str) -> int:
    """The bytes of ``24GB``, ``24 GiB`` or ``512 MB``; case does not matter.

    Raises:
        ValueError: it is not a size, has no unit, or is out of the range of real devices; the message says which.
    """
    found = re.fullmatch(r"\s*(\d{1,12}(?:\.\d{0,6})?|\.\d{1,6})\s*([a-z]*)\s*", text, re.IGNORECASE)
    if found is None:
        raise ValueError("not a number and a unit")
    number, unit = found.groups()
    if not unit:
        raise ValueError("a number without a unit")
    factor = _UNITS.get(unit.lower())
    if factor is None:
        raise ValueError(f"{unit} is not a unit of memory here")
    size = round(float(number) * factor)
    if not _LEAST <= size <= _MOST:
        raise ValueError("no device has so little or so much: 0.1 GB to 10 TB")
    return size
