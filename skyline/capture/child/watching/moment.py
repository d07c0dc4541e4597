"""A profile of a bad moment: a few iterations under PyTorch's profiler."""

from __future__ import annotations

import torch

from ..devices.backend import profiler_activities, used_backends


class Moment:
    """Records a number of iterations from now on, and writes a trace that ``skyline whatif`` reads."""

    def __init__(self, command, stream):
        self._path = command["path"]
        self._rest = command["iterations"]
        self._stream = stream
        kind = next((backend.kind for backend in used_backends()), "cpu")
        self._profiler = torch.profiler.profile(activities=profiler_activities(kind), record_shapes=True)
        self._profiler.start()

    def iteration_ended(self):
        """Count an iteration; True once the trace is written."""
        self._profiler.step()
        self._rest -= 1
        if self._rest > 0:
            return False
        self._profiler.stop()
        self._profiler.export_chrome_trace(self._path)
        self._stream.send(kind="moment", path=self._path)
        return True
