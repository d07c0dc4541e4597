"""Another batch size for the loaders of one line, while the source stays as it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoaderBatch:
    """Loaders that are made on this line with a batch size of ``size`` get ``wanted`` in its place."""

    file: str
    line: int
    size: int
    wanted: int
