"""The lines of the user's code on which a thread spends its time, by samples."""

from __future__ import annotations

import sys
import threading
from collections import Counter

from .. import user_code

_EVERY_S = 0.002


class LineShares:
    """Samples the calling thread between ``start`` and ``stop``, and counts samples by the innermost user line."""

    def __init__(self):
        self._seen = Counter()
        self._over = threading.Event()
        self._thread = None

    def start(self):
        """Watch the calling thread."""
        self._thread = threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True)
        self._thread.start()

    def stop(self):
        """End the sampling; the counts stay."""
        self._over.set()
        self._thread.join()

    def counts(self, places):
        """Samples by the number of the line in ``places``; empty if the time was too short for any."""
        return Counter({places.number_of(code, line): count for (code, line), count in self._seen.items()})

    def _watch(self, watched):
        while not self._over.wait(_EVERY_S):
            # A frame keeps its variables alive: no reference to it outlives the sample.
            frame = sys._current_frames().get(watched)
            while frame is not None and not user_code.is_user_file(frame.f_code.co_filename):
                frame = frame.f_back
            if frame is not None:
                self._seen[frame.f_code, frame.f_lineno] += 1
            del frame
