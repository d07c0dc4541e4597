"""Times iterations without stalling the device: the host can launch work ahead as usual."""

from __future__ import annotations

import time

from .in_use import DevicesInUse

# Bound at import, before the script can replace it.
_clock = time.perf_counter


class _Moment:
    """A time of the host, and an event on each device that it reaches after all work launched before."""

    __slots__ = ("at", "events")

    def __init__(self, events):
        self.events = events
        self.at = _clock()


class StepClock:
    """Times from boundary to boundary: ``leave`` one, ``arrive`` at the next. The time at a boundary does not count.

    On devices with timing events, an iteration lasts from the end of the devices' previous iteration to the end of
    this one. The clock waits for them only at the start of a turn (``begin``) and when its times are read
    (``steps_ms``). Without such events each arrival waits. On the CPU there is nothing to wait for.
    """

    def __init__(self):
        self.devices = DevicesInUse()
        self._origin = None
        self._left = None
        self._reached = 0.0
        self._steps = []

    @property
    def behind(self):
        """Number of iterations by which ``latest_ms`` is behind."""
        return 1 if self._by_events else 0

    @property
    def _by_events(self):
        return self.devices.times

    def begin(self, devices):
        """Start a turn with idle devices, and drop earlier times."""
        self.devices = devices
        devices.wait()
        self._origin = self._left = None
        self._steps = []

    def reach(self):
        """Note the time at which the host is done with an iteration; devices may have work left."""
        self._reached = _clock()

    def host_ms(self):
        """Host time of the current iteration in ms: from leaving the last boundary to reaching this one."""
        return 0.0 if self._left is None else (self._reached - self._left.at) * 1e3

    def arrive(self):
        """End an iteration."""
        if not self._by_events:
            self.devices.wait()
        moment = self._moment()
        if self._left is not None:
            self._steps.append((self._left, moment))

    def leave(self):
        """Start the next iteration."""
        self._left = self._moment()
        if self._origin is None:
            self._origin = self._left

    def latest_ms(self):
        """The time of the last iteration that is known without draining the device, in ms; None if there is none yet.

        With events it is the one before the last: while the host waits for its end, the device works on the last one.
        """
        if len(self._steps) <= self.behind:
            return None
        left, arrived = self._steps[-1 - self.behind]
        if self._by_events:
            for event in arrived.events:
                event.synchronize()
            # Earlier times are no longer needed, and their events can be freed.
            del self._steps[: -1 - self.behind]
        return self._between_ms(left, arrived)

    def steps_ms(self):
        """Times of all iterations of this turn in ms, after a wait for the devices."""
        self.devices.wait()
        return [self._between_ms(left, arrived) for left, arrived in self._steps]

    def _moment(self):
        return _Moment(self.devices.events() if self._by_events else None)

    def _between_ms(self, left, arrived):
        if not self._by_events:
            return (arrived.at - left.at) * 1e3
        return self._since_origin_ms(arrived) - self._since_origin_ms(left)

    def _since_origin_ms(self, moment):
        """Time from the origin, at which all devices were idle, until the last device reached this moment, in ms."""
        return max(
            first.elapsed_time(event) for first, event in zip(self._origin.events, moment.events, strict=True)
        )
