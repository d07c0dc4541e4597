"""Times of the parts of an iteration that need no profiler, and counts of its events."""

from __future__ import annotations

import time

_clock = time.perf_counter


class Parts:
    """Seconds spent in the parts of one iteration.

    ``closure`` is what runs inside an optimizer step but is not its work: the closure that it calls, less the
    backward passes in it. ``saving`` to ``rollout`` are those of ``Interludes``.
    """

    __slots__ = (
        "backward",
        "backward_calls",
        "closure",
        "data",
        "evaluation",
        "fetches",
        "logging",
        "optimizer",
        "optimizer_steps",
        "rollout",
        "saving",
    )

    def __init__(self):
        self.data = self.backward = self.optimizer = self.closure = 0.0
        self.saving = self.logging = self.evaluation = self.rollout = 0.0
        self.fetches = self.backward_calls = self.optimizer_steps = 0


class PartClock:
    """Attributes time to the innermost part that is entered: time is exclusive, parts may be nested.

    ``on_part`` is called with the innermost part at each change.
    """

    def __init__(self, on_part=None):
        self.parts = Parts()
        self._inside = []
        self._on_part = on_part

    def inside(self, part):
        """True if a part is entered, at any depth."""
        return any(entered[0] == part for entered in self._inside)

    def innermost(self):
        """The part that is under way, or None."""
        return self._inside[-1][0] if self._inside else None

    def enter(self, part):
        """The time from now on belongs to ``part``."""
        now = _clock()
        if self._inside:
            outer = self._inside[-1]
            setattr(self.parts, outer[0], getattr(self.parts, outer[0]) + now - outer[1])
        self._inside.append([part, now])
        self._tell()

    def leave(self):
        """Back to the part around it."""
        now = _clock()
        part, since = self._inside.pop()
        setattr(self.parts, part, getattr(self.parts, part) + now - since)
        if self._inside:
            self._inside[-1][1] = now
        self._tell()

    def timed(self, call, part):
        """``call`` with its time given to ``part``."""

        def timed(*args, **kwargs):
            self.enter(part)
            try:
                return call(*args, **kwargs)
            finally:
                self.leave()

        timed.__wrapped__ = call
        timed.__name__ = getattr(call, "__name__", part)
        timed.__doc__ = call.__doc__
        return timed

    def _tell(self):
        if self._on_part is not None:
            self._on_part(self.innermost())

    def take(self):
        """The parts since the last call; start again.

        A part that is under way starts again: an iteration may end within an optimizer step.
        """
        parts, self.parts = self.parts, Parts()
        if self._inside:
            self._inside[-1][1] = _clock()
        return parts
