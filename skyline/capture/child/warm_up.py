"""Decides when a script is warmed up: steps no longer get faster, nothing compiles, the allocator has settled."""

from __future__ import annotations

import statistics

from .styles import compiled_frames

LEAST = 2
_MOST = 60
_BUDGET_S = 4.0
_MOST_COMPILING = 24
_WINDOW = 3
_AGREEMENT = 1.10
_TREND = 0.95


class WarmUp:
    """Decides after each iteration if another is needed; ``reason`` says in words why the warm-up ended.

    The steps have settled when the last three agree within a tenth or, on a machine that is busy with other
    programs, when the last three are not faster than the three before them. Steps in which torch.compile compiled or
    the device's allocator reserved more memory restart the count, and do not count towards the time limit of the
    warm-up.
    """

    def __init__(self, asked=None):
        self._asked = asked
        self._steps_ms = []
        self._spent_ms = 0.0
        self._compiled = 0
        self._compiling_steps = 0
        self._reserved = 0
        self._changed_at = 0
        self.reason = ""

    @property
    def judged(self):
        """Number of last iterations on which the decision is based."""
        return min(_WINDOW, len(self._steps_ms))

    def over(self, count, step_ms, reserved_bytes=0, behind=0):
        """True if ``count`` iterations are enough. ``step_ms`` is the time of the iteration ``behind`` before the last.

        ``step_ms`` is None if unknown. ``reserved_bytes`` is the memory reserved by the device's allocator so far.
        """
        if self._asked is not None:
            self.reason = "as asked"
            return count >= self._asked
        compiled = compiled_frames()
        changing = compiled != self._compiled or reserved_bytes != self._reserved
        self._compiled, self._reserved = compiled, reserved_bytes
        if changing and self._compiling_steps < _MOST_COMPILING:
            self._compiling_steps += 1
            self._changed_at = count
            self._steps_ms.clear()
            return False
        if step_ms is not None and count - behind > self._changed_at:
            self._steps_ms.append(step_ms)
            self._spent_ms += step_ms
        if count < LEAST:
            return False
        if _settled(self._steps_ms):
            self.reason = "the step times had settled"
        elif self._spent_ms >= _BUDGET_S * 1e3:
            self.reason = f"the step times still varied after {_BUDGET_S:g} s"
            if len(self._steps_ms) < _WINDOW:
                self.reason = "iterations are long"
        elif count >= _MOST:
            self.reason = "the step times still varied"
        return bool(self.reason)


def _settled(steps_ms):
    last = steps_ms[-_WINDOW:]
    if len(last) < _WINDOW:
        return False
    if max(last) <= min(last) * _AGREEMENT:
        return True
    before = steps_ms[-2 * _WINDOW : -_WINDOW]
    return len(before) == _WINDOW and statistics.median(last) >= statistics.median(before) * _TREND
