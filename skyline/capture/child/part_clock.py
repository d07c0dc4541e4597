"""Times of the parts of an iteration, measured without a profiler, and counts of its events."""

from __future__ import annotations

import time

_clock = time.perf_counter


class Parts:
    """Seconds spent in the parts of one iteration.

    ``closure`` is the time of the closure that an optimizer step calls, minus the backward passes in it.
    ``saving``, ``logging``, ``evaluation`` and ``rollout`` are the parts of ``Interludes``.
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
    """Attributes time to the innermost current part: parts may be nested, and their times are exclusive.

    ``on_part`` is called with the innermost part at each change.
    """

    def __init__(self, on_part=None):
        self.parts = Parts()
        self._inside = []
        self._on_part = on_part

    def inside(self, part):
        """True within a part, at any depth."""
        return any(entered[0] == part for entered in self._inside)

    def innermost(self):
        """The innermost current part, or None."""
        return self._inside[-1][0] if self._inside else None

    def enter(self, part):
        """Attribute time to ``part`` from now on."""
        now = _clock()
        if self._inside:
            outer = self._inside[-1]
            setattr(self.parts, outer[0], getattr(self.parts, outer[0]) + now - outer[1])
        self._inside.append([part, now])
        self._tell()

    def leave(self):
        """Return to the enclosing part."""
        now = _clock()
        part, since = self._inside.pop()
        setattr(self.parts, part, getattr(self.parts, part) + now - since)
        if self._inside:
            self._inside[-1][1] = now
        self._tell()

    def timed(self, call, part):
        """A wrapper of ``call`` that attributes its time to ``part``."""

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
        """Return the parts since the last call, and start again.

        A current part starts again too: an iteration may end within an optimizer step.
        """
        parts, self.parts = self.parts, Parts()
        if self._inside:
            self._inside[-1][1] = _clock()
        return parts
