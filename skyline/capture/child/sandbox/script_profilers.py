"""PyTorch profilers of the script's own: held back, because two cannot record at once and theirs costs time."""

from __future__ import annotations

import os
import sys

from .. import user_code
from .import_hooks import after_import

_OTHERS = (
    *(part.replace("/", os.sep) for part in ("/torch/_inductor/", "/torch/_dynamo/", "/triton/")),
    os.path.join(user_code.FOLDER, "recording", "recorder.py"),
)
_FRAMES = 12


def install(log):
    """Make the profilers that the script starts record nothing; all their calls go on working."""
    after_import("torch.autograd.profiler", lambda module: _install(module, log))


def _install(module, log):
    real = module.profile

    class profile(real):
        """Starts and stops without doing anything, and then has seen no events."""

        def __enter__(self):
            self._prepare_trace()
            return self

        def _prepare_trace(self):
            self.entered = True
            # Under one name or the other, by the version of PyTorch.
            self._function_events = self.__dict__["function_events"] = module.EventList([], use_device=None)
            self._function_events._build_tree()

        def _start_trace(self):
            pass

        def __exit__(self, *_):
            return False

        def export_chrome_trace(self, path, *_):
            with open(path, "w") as file:
                file.write('{"traceEvents": []}')

        def export_stacks(self, path, *_, **__):
            with open(path, "w"):
                pass

        def toggle_collection_dynamic(self, *_):
            pass

    def __new__(cls, *_, **__):
        if cls is real and _started_by_script():
            log.note("profiler", "torch.profiler", "held back")
            cls = profile
        return object.__new__(cls)

    real.__new__ = __new__


def _started_by_script():
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return True
        if any(part in frame.f_code.co_filename for part in _OTHERS):
            return False
        frame = frame.f_back
    return True
