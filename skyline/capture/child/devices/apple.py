"""Apple's GPU, which its module of PyTorch tells about by names of its own."""

from __future__ import annotations

import torch

from .backend import Backend


class AppleBackend(Backend):
    """Its module knows one device, has other names for memory, and events whose clock is not the stream's."""

    def is_used(self):
        """There is no question for that: whether tensors are on it."""
        return torch.backends.mps.is_available() and self.allocated_bytes(0) > 0

    def count(self):
        """One."""
        return 1

    def current(self):
        """That one."""
        return 0

    def wait(self, index):
        """Until it has done everything."""
        self._module.synchronize()

    def times(self, index):
        """Its events are not those of the stream's clock."""
        return False

    def allocated_bytes(self, index):
        """What tensors use."""
        return self._asked("current_allocated_memory") or 0

    def reserved_bytes(self, index):
        """What Metal took for this process."""
        return self._asked("driver_allocated_memory") or 0

    def peak_bytes(self, index):
        """Not kept."""
        return

    def reset_peak(self, index):
        """Nothing is kept."""

    def free_and_total_bytes(self, index):
        """Of what Metal recommends to use of the memory that it shares with the host."""
        total = self._asked("recommended_max_memory")
        return None if not total else (max(0, total - self.reserved_bytes(index)), total)

    def stats(self, index):
        """Nothing is told."""
        return {}

    def name(self, index):
        """What the maker calls it."""
        ask = getattr(torch.backends.mps, "get_name", None)
        return ask() if ask is not None else "Apple GPU"

    def random_state(self, index):
        """The state of its random numbers."""
        return self._asked("get_rng_state")
