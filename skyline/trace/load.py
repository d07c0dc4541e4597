"""How busy the machine was with other programs while iterations were timed."""

from __future__ import annotations

from dataclasses import dataclass

_FULL = 0.9
"""Of all cores: with fewer at work somebody else's programs found cores of their own."""
_NOTICED_CORES = 0.5
"""An editor with its servers takes some tenths of a core; from here on timed iterations waited for cores."""


@dataclass(frozen=True, slots=True)
class MachineLoad:
    """Cores kept busy while the script was timed: by its own processes, by all others, and how many there are."""

    own_cores: float
    others_cores: float
    cores: int

    @property
    def busy(self) -> bool:
        """Whether other programs took processor time that the script would have used."""
        full = self.own_cores + self.others_cores >= _FULL * self.cores
        return full and self.others_cores >= _NOTICED_CORES
