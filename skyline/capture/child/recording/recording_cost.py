"""About what recording takes for what it notes, in microseconds; the bare iterations tell how much it was in all."""

from __future__ import annotations

CALL_US = 0.1
"""Noting the start or the end of a Python call."""

OPERATOR_US = 0.6
"""Noting an operator."""

FULL_OPERATOR_US = 1.0
"""Noting an operator with its shapes and allocations."""
