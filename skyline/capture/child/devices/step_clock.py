"""Times iterations without holding up the device: what the host launches ahead, it launches ahead here too."""

from __future__ import annotations

import time

from .in_use import DevicesInUse

# Kept from before the script could put something else in its place.
_clock = time.perf_counter


class _Moment:
    """When the host was here, and an event on each device for when that had done all that was launched before."""

    __slots__ = ("at", "events")

    def __init__(self, events):
        self.events = events
        self.at = _clock()


class StepClock:
    """From boundary to boundary: ``leave`` one, ``arrive`` at the next; what happens in between is not the script's.

    On devices with timing events an iteration is as long as the devices take from having done one to having done the
    next. They are waited for where a turn begins (``begin``) and where its times are asked for (``steps_ms``). Where
    there are no such events each arrival waits. On the CPU there is nothing to wait for.
    """

    def __init__(self):
        self.devices = DevicesInUse()
        self._origin = None
        self._left = None
        self._reached = 0.0
        self._steps = []

    @property
    def behind(self):
        """Number of iterations by which ``latest_ms`` is late."""
        return 1 if self._by_events else 0

    @property
    def _by_events(self):
        return self.devices.times

    def begin(self, devices):
        """A turn begins: the devices are idle, and what was timed before is forgotten."""
        self.devices = devices
        devices.wait()
        self._origin = self._left = None
        self._steps = []

    def reach(self):
        """The host is done with an iteration; its devices may have work left."""
        self._reached = _clock()

    def host_ms(self):
        """Time of the host in the iteration that ends: from leaving the last boundary to reaching this one."""
        return 0.0 if self._left is None else (self._reached - self._left.at) * 1e3

    def arrive(self):
        """An iteration ends here."""
        if not self._by_events:
            self.devices.wait()
        moment = self._moment()
        if self._left is not None:
            self._steps.append((self._left, moment))

    def leave(self):
        """The next one begins."""
        self._left = self._moment()
        if self._origin is None:
            self._origin = self._left

    def latest_ms(self):
        """The last iteration that is known, without the device running dry; None if there is none yet.

        By events it is the one before the last: while the host waits for its end the device has the next to do.
        """
        if len(self._steps) <= self.behind:
            return None
        left, arrived = self._steps[-1 - self.behind]
        if self._by_events:
            for event in arrived.events:
                event.synchronize()
            # Their times are known, and the events can go.
            del self._steps[: -1 - self.behind]
        return self._between_ms(left, arrived)

    def steps_ms(self):
        """Every iteration of this turn, once the devices have done them all."""
        self.devices.wait()
        return [self._between_ms(left, arrived) for left, arrived in self._steps]

    def _moment(self):
        return _Moment(self.devices.events() if self._by_events else None)

    def _between_ms(self, left, arrived):
        if not self._by_events:
            return (arrived.at - left.at) * 1e3
        return self._since_origin_ms(arrived) - self._since_origin_ms(left)

    def _since_origin_ms(self, moment):
        """Until the last of the devices was there: all were idle at the origin."""
        return max(
            first.elapsed_time(event) for first, event in zip(self._origin.events, moment.events, strict=True)
        )
