"""The time in which a thread was ready to run and had no processor."""

from __future__ import annotations

import os

_STATISTICS = "/proc/thread-self/schedstat"
_MOST_BYTES = 128
# Kept from before the script could put something else in their place.
_open, _read, _close = os.open, os.read, os.close


def delayed_s():
    """Seconds so far of the calling thread, as Linux's scheduler counts them; None where none are counted."""
    try:
        descriptor = _open(_STATISTICS, os.O_RDONLY)
    except OSError:
        return None
    try:
        ran_ns, waited_ns, _ = map(int, _read(descriptor, _MOST_BYTES).split())
    except (OSError, ValueError):
        return None
    finally:
        _close(descriptor)
    # A kernel that does not count writes zeros.
    return waited_ns / 1e9 if ran_ns else None
