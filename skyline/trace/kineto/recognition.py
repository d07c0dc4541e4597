"""Recognition of a PyTorch profiler trace by the first bytes of its file."""

from __future__ import annotations

import gzip
from pathlib import Path

from skyline.bounded_read import head_unpacked
from skyline.errors import UsageError
from skyline.source.cells import SUFFIX

_HEAD_BYTES = 1 << 16
_KEYS = (b'"traceEvents"', b'"deviceProperties"', b'"baseTimeNanoseconds"', b'"schemaVersion"')
_EVENT = b'"ph"'


def is_trace(path: Path) -> bool:
    """True if the file starts like a trace of the PyTorch profiler, packed or not."""
    if path.suffix in {".py", ".pyw", SUFFIX} or not path.is_file():
        return False
    head = head_of(path).lstrip()
    if b'"skyline.' in head[:256]:
        return False
    # Profilers of 2020 and 2021 wrote a bare list of events.
    return any(key in head for key in _KEYS) if head[:1] == b"{" else head[:1] == b"[" and _EVENT in head


def head_of(path: Path) -> bytes:
    """The first bytes of a file, unpacked if it is packed; empty if it is damaged."""
    try:
        return head_unpacked(path, _HEAD_BYTES)
    except gzip.BadGzipFile:
        return b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
