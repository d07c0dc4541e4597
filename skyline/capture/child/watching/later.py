"""Reads the numbers of tensors without waiting for the device that computes them."""

from __future__ import annotations

import torch

from ..devices.backend import backend_of

_PATIENCE = 50
"""Number of ``deliver`` calls before a blocking read, on a device that cannot report if its work is done."""


class Later:
    """Numbers on their way to the host, in order; each is passed to its function once it has arrived."""

    def __init__(self):
        self._waiting = []

    def read(self, tensors, then):
        """Call ``then`` with the numbers of one-element tensors; at once for CPU tensors."""
        with torch.no_grad():
            if all(tensor.device.type == "cpu" for tensor in tensors):
                then([float(tensor) for tensor in tensors])
                return
            device = next(tensor.device for tensor in tensors if tensor.device.type != "cpu")
            rows = [tensor.detach().reshape(()).to(device, torch.float32) for tensor in tensors]
            copied = torch.stack(rows).to("cpu", non_blocking=True)
        backend = backend_of(device.type)
        index = device.index if device.index is not None else 0
        event = backend.event_with_query(index)
        self._waiting.append([copied, event, _PATIENCE, (backend, index), then])

    def deliver(self):
        """Pass on the numbers that have arrived."""
        while self._waiting:
            entry = self._waiting[0]
            copied, event, patience, (backend, index), then = entry
            if event is not None:
                if not event.query():
                    return
            elif patience:
                entry[2] -= 1
                return
            else:
                backend.wait(index)
            del self._waiting[0]
            then(copied.tolist())
