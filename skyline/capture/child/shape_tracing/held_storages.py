"""Tracks the blocks of memory that are held, and their total bytes, at any time."""

from __future__ import annotations

import weakref

import torch

_GRANULE = 512
"""PyTorch's CUDA allocator allocates multiples of this many bytes."""


class StorageBlock:
    """One block: its size, its device, and a number as its address."""

    __slots__ = ("address", "on_gpu", "size_bytes", "stale", "watch")

    def __init__(self, size_bytes, on_gpu, address):
        self.size_bytes = size_bytes
        self.on_gpu = on_gpu
        self.address = address
        self.stale = False
        self.watch = None


class StorageLedger:
    """Follows storages from their first use to their end; ``on_change(block, sign)`` is called at both."""

    def __init__(self, on_change):
        self._blocks = {}
        self._addresses = 0
        self._on_change = on_change
        self.live_bytes = {True: 0, False: 0}
        self.peak_bytes = {True: 0, False: 0}

    def take(self, tensor, on_gpu):
        """Add the memory of a tensor, unless it is known already."""
        if tensor.layout is not torch.strided:
            raise NotImplementedError("sparse tensors cannot be traced without computing them")
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._blocks:
            return
        size = storage.nbytes()
        if on_gpu:
            size = -(-size // _GRANULE) * _GRANULE
        self._addresses += 1
        block = StorageBlock(size, on_gpu, self._addresses)
        block.watch = weakref.ref(storage, lambda _: self._freed(key))
        self._blocks[key] = block
        self.live_bytes[on_gpu] += size
        self.peak_bytes[on_gpu] = max(self.peak_bytes[on_gpu], self.live_bytes[on_gpu])
        if size:
            self._on_change(block, 1)

    def block(self, tensor):
        """The block of a tensor, or None."""
        return self._blocks.get(tensor.untyped_storage()._cdata)

    def mark(self):
        """Reset the peaks to the present memory."""
        self.peak_bytes = dict(self.live_bytes)

    def _freed(self, key):
        block = self._blocks.pop(key, None)
        if block is not None:
            self.live_bytes[block.on_gpu] -= block.size_bytes
            if block.size_bytes:
                self._on_change(block, -1)
