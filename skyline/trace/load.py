"""Load of the machine by other programs while iterations were timed."""

from __future__ import annotations

from dataclasses import dataclass

_FULL = 0.9
"""Share of all cores in use; below it, other programs ran on idle cores."""
_NOTICED_CORES = 0.5
"""Cores. An editor with its servers takes some tenths of a core; above this, timed iterations waited for cores."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Average numbers of busy cores during timing, of the script's processes and of all others, and the core count."""

    own_cores: float
    others_cores: float
    cores: int

    @property
    def busy(self) -> bool:
        """True if other programs took processor time that the script would have used."""
        full = self.own_cores + self.others_cores >= _FULL * self.cores
        return full and self.others_cores >= _NOTICED_CORES
