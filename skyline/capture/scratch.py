"""The folder that holds everything a run writes, and goes with it."""

from __future__ import annotations

import tempfile
from pathlib import Path

from skyline.errors import CaptureImpossible

_PREFIX = "skyline-"


def make_scratch() -> tempfile.TemporaryDirectory[str]:
    """A new folder in the temporary folder. Raises CaptureImpossible where there is no room for one."""
    try:
        folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
    except OSError as error:
        raise CaptureImpossible(
            f"No temporary folder can be made: {error.strerror or error}",
            hint="Set TMPDIR to a folder that can be written and has some room.",
        ) from error
    # A disk without room takes a folder gladly, but nothing in it.
    probe = Path(folder.name) / "room"
    try:
        probe.write_bytes(bytes(65536))
        probe.unlink()
    except OSError as error:
        place = Path(folder.name).parent
        folder.cleanup()
        raise CaptureImpossible(
            f"The temporary folder {place} cannot be written: {error.strerror or error}",
            hint="Make room there, or set TMPDIR to another folder.",
        ) from error
    return folder
