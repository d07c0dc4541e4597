"""One light recording by itself: what takes how long, without shapes, memory and the lines of operators."""

from __future__ import annotations

import json

from .module_names import module_names
from .operator_lines import OperatorLines
from .recorder import Recorder

# Kept from before the script could put something else in their place.
_open, _dumps = open, json.dumps


class LightRecording:
    """Stands in where ``Recordings`` do: it begins, is marked at each boundary, ends, and is read."""

    wants_memory = wants_facts = False

    def __init__(self, device_kind, iterations):
        self._recorder = Recorder(
            device_kind, iterations, operator_lines=OperatorLines(), full=False, samples=False
        )
        self._trace = None

    @property
    def remaining(self):
        """Number of iterations still needed."""
        return self._recorder.remaining

    def start(self):
        """Begin with the next iteration."""
        self._recorder.start()

    def mark(self):
        """An iteration ends here."""
        self._recorder.mark()

    def stop(self):
        """It has its iterations."""
        self._recorder.stop()

    def read(self, loop):
        """Read what was recorded; nothing is to be recorded after it."""
        self._trace = self._recorder.read(loop, module_names())
        for record in self._trace["records"]:
            record.pop("whole", None)
        return False

    def end(self, loop):
        """The script has come to its end before its iterations were recorded: they are not of use."""

    def write(self, path):
        """Leave the trace, if there is any, in a file for the parent."""
        if self._trace is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._trace))
