"""What one profiling may set for itself, over the settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProfileOptions:
    """The second argument of ``skyline.profile``; camelCase because it is the wire format, None: as in the settings.

    Later runs of the same script, such as those on save, keep them until others are given.
    """

    args: tuple[str, ...] | None = None
    steps: int | None = None
    timeoutS: float | None = None
    batchPoints: int | None = None
    device: str | None = None
    gpu: str | None = None
    """A GPU to predict for, which need not be here: the script is traced and not run."""
