"""What the script prints: passed on as it comes, with only the end of it kept."""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from typing import IO

from skyline.capture.request import OutputCallback

_KEPT_CHUNKS = 16
_KEPT_BYTES = 4096
_CHUNK_BYTES = 65536
_PROFILER_CHATTER = re.compile(
    rb"^(USDT:.*Profiler|\[W.*CPUAllocator.*Memory block of unknown size).*\n?", re.MULTILINE
)
"""What PyTorch's profiler itself prints on standard error, which is not the script's doing."""


class ScriptOutput:
    """Drains the pipe of a child's stdout and stderr, so that a talkative script never stalls or fills a disk."""

    def __init__(self, stream: IO[bytes], callback: OutputCallback | None) -> None:
        self._stream = stream
        self._callback = callback
        self._kept: deque[bytes] = deque(maxlen=_KEPT_CHUNKS)
        self._thread = threading.Thread(target=self._drain, name="skyline-output", daemon=True)
        self._thread.start()

    def tail(self, lines: int = 20) -> str:
        """The last lines that were printed."""
        self._thread.join(timeout=1.0)
        return "\n".join(b"".join(self._kept).decode("utf-8", "replace").splitlines()[-lines:])

    def _drain(self) -> None:
        descriptor = self._stream.fileno()
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except OSError:
                return
            if not chunk:
                return
            chunk = _PROFILER_CHATTER.sub(b"", chunk)
            self._kept.append(chunk[-_KEPT_BYTES:])
            if self._callback is not None:
                self._callback(chunk.decode("utf-8", "replace"))
