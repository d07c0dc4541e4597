"""All devices of one kind on which the script computes, as one unit."""

from __future__ import annotations

from .backend import CPU, backend_of, kinds, used_backends


class DevicesInUse:
    """The devices of a script: several if a model is spread over them, none if it computes on the CPU."""

    def __init__(self, kind=CPU, backend=None, indices=()):
        self.kind = kind
        self._backend = backend
        self.indices = tuple(indices)
        self._times = None

    def wait(self):
        """Wait until all devices have done their launched work."""
        for index in self.indices:
            self._backend.wait(index)

    @property
    def times(self):
        """True if all devices measure times by events."""
        if self._times is None:
            self._times = bool(self.indices) and all(self._backend.times(index) for index in self.indices)
        return self._times

    def events(self):
        """A timing event on each device, recorded now."""
        return [self._backend.event(index) for index in self.indices]

    def allocated_bytes(self):
        """Bytes of tensors, summed over the devices."""
        return sum(self._backend.allocated_bytes(index) for index in self.indices)

    def reserved_bytes(self):
        """Bytes reserved by the allocator, summed over the devices."""
        return sum(self._backend.reserved_bytes(index) for index in self.indices)

    def reset_peaks(self):
        """Reset the peaks to the bytes in use now."""
        for index in self.indices:
            self._backend.reset_peak(index)

    def peak_bytes(self):
        """The sum of the devices' peak tensor bytes, which may be at different times; None if not tracked."""
        peaks = [self._backend.peak_bytes(index) for index in self.indices]
        return sum(peaks) if peaks and None not in peaks else None

    def free_and_total_bytes(self):
        """Free and total bytes, summed over the devices; None if one does not report them."""
        told = [self._backend.free_and_total_bytes(index) for index in self.indices]
        if not told or None in told:
            return None
        return sum(free for free, _ in told), sum(total for _, total in told)

    def room_and_capacity_bytes(self):
        """The parts of the free and of the total bytes that the script can use with its distribution over the devices.

        Memory is assumed to grow in proportion to the memory in use on each device, so that the device that is full
        first limits all of them. None if one does not report its memory.
        """
        told = [self._backend.free_and_total_bytes(index) for index in self.indices]
        if not told or None in told:
            return None
        reserved = [self._backend.reserved_bytes(index) for index in self.indices]
        held = [(own, free, total) for own, (free, total) in zip(reserved, told, strict=True) if own]
        if not held:
            return min(free for free, _ in told), min(total for _, total in told)
        everything = sum(own for own, _, _ in held)
        free, total = (min(each[place] * everything // each[0] for each in held) for place in (1, 2))
        return free, total

    def stats(self):
        """Statistics of the caching allocators, summed over the devices."""
        totals = {}
        for index in self.indices:
            for name, value in self._backend.stats(index).items():
                totals[name] = totals.get(name, 0) + value
        return totals

    def processes(self):
        """The driver's texts about the processes on each device."""
        return [self._backend.processes(index) for index in self.indices]

    def empty_cache(self):
        """Free the unused memory of the allocators."""
        if self._backend is not None:
            self._backend.empty_cache()

    def name(self):
        """The name of the first device; empty on the CPU."""
        return self._backend.name(self.indices[0]) if self.indices else ""

    def identities(self):
        """The driver's identifiers of the devices; empty if unknown."""
        found = [self._backend.identity(index) for index in self.indices]
        return found if all(found) else []

    def capability(self):
        """The compute capability of the first device; None if it has none."""
        return self._backend.capability(self.indices[0]) if self.indices else None


def devices_in_use(parameters):
    """The devices of the updated parameters, and other devices of the same kind on which this process has memory.

    Replicas, stages of a pipeline and activations may be on devices without an optimizer's parameters. If no parameter
    is on an accelerator, the script computes on the CPU; without any parameters, on the devices that it has used.
    """
    seen = {}
    for parameter in parameters:
        seen.setdefault(parameter.device, None)
    known = kinds()
    kind = next((device.type for device in seen if device.type in known), None)
    if kind is None:
        if seen:
            return DevicesInUse()
        found = [(backend, _holding(backend)) for backend in used_backends()]
        backend, indices = next(((each, held) for each, held in found if held), (None, ()))
        return DevicesInUse() if backend is None else DevicesInUse(backend.kind, backend, sorted(indices))
    backend = backend_of(kind)
    if backend is None:
        return DevicesInUse(kind)
    own = [device.index for device in seen if device.type == kind]
    first = [backend.current() if index is None else index for index in own]
    return DevicesInUse(kind, backend, dict.fromkeys([*first, *sorted(_holding(backend))]))


def _holding(backend):
    """Indices of devices with reserved memory; further queries would initialise the other devices."""
    return [index for index in range(backend.count()) if backend.reserved_bytes(index)]
