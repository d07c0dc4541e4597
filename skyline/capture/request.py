"""What to run and measure, and how far to go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CaptureRequest:
    """One profiling of one script.

    ``interpreter`` None means the one that runs this code. ``steps`` is the number of bare iterations to
    time at least; more follow until their spread is small or ``settle_s`` is spent. ``recorded`` iterations
    are then recorded in full. ``batch_points`` is how many further batch sizes to measure for the curve.
    ``timeout_s`` bounds every wait for the script's next iteration, ``memory_limit_bytes`` the resident
    memory of the script and its workers (None: nine tenths of what is free).
    """

    script: Path
    arguments: tuple[str, ...] = ()
    interpreter: str | None = None
    working_directory: Path | None = None
    device: str = "auto"
    warmup: int = 3
    steps: int = 8
    settle_s: float = 4.0
    recorded: int = 3
    batch_points: int = 3
    timeout_s: float = 180.0
    memory_limit_bytes: int | None = None
    source_overrides: tuple[tuple[str, str], ...] = ()
    """(path, text) pairs: run this text in place of the file, as for an editor's unsaved buffer."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a capture is: ``stage`` is a word (launch, warm up, measure, record, curve, analyse)."""

    stage: str
    message: str
    fraction: float


ProgressCallback = Callable[[Progress], None]
OutputCallback = Callable[[str], None]
