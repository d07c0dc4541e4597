"""Which blocks of memory are held, and how many bytes that makes, at every moment."""

from __future__ import annotations

import weakref

import torch

_GRANULE = 512
"""PyTorch's CUDA allocator gives out multiples of this."""


class StorageBlock:
    """One block: its size, where it lies, and a number that stands for its address."""

    __slots__ = ("address", "on_gpu", "size_bytes", "stale", "watch")

    def __init__(self, size_bytes, on_gpu, address):
        self.size_bytes = size_bytes
        self.on_gpu = on_gpu
        self.address = address
        self.stale = False
        self.watch = None


class StorageLedger:
    """Follows storages from their first sight to their end; ``on_change(block, sign)`` hears of both."""

    def __init__(self, on_change):
        self._blocks = {}
        self._addresses = 0
        self._on_change = on_change
        self.live_bytes = {True: 0, False: 0}
        self.peak_bytes = {True: 0, False: 0}

    def take(self, tensor, on_gpu):
        """Note the memory behind a tensor, unless it is known already."""
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
        """The block behind a tensor, or None."""
        return self._blocks.get(tensor.untyped_storage()._cdata)

    def mark(self):
        """Count the peaks from here on."""
        self.peak_bytes = dict(self.live_bytes)

    def _freed(self, key):
        block = self._blocks.pop(key, None)
        if block is not None:
            self.live_bytes[block.on_gpu] -= block.size_bytes
            if block.size_bytes:
                self._on_change(block, -1)
