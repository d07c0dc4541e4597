"""Where an answer comes from: a measurement of this very change here, a model, or an assumption."""

from __future__ import annotations

from enum import Enum


class Provenance(str, Enum):
    """Where an answer comes from, from the strongest to the weakest."""

    MEASURED = "measured"
    """This script ran with this change, on this machine."""
    INTERPOLATED = "interpolated"
    """Read between runs of this script with less and with more of this change."""
    TRIED = "tried"
    """Parts of this script ran with this change, on this machine; a simulation puts them together."""
    MODELLED = "modelled"
    """Follows from the recorded work by a model with figures from elsewhere."""
    ASSUMED = "assumed"
    """A range from experience: a fact that a model needs is not known, or there is no model."""

    def with_part(self, other: Provenance) -> Provenance:
        """Of an answer with another part: the weaker of both."""
        order = list(Provenance)
        return max(self, other, key=order.index)
