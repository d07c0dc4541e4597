"""Words for where an answer comes from."""

from __future__ import annotations

PROVENANCE = {
    "measured": "this script ran with the change, on this machine",
    "interpolated": "read between runs of this script with less and with more of the change",
    "tried": "parts of this script ran with the change here; a simulation puts them together",
    "modelled": "a model predicts it from the recorded work",
    "assumed": "a range from experience: a fact that a model needs is not known",
}
"""By ``Estimate.provenance``, from the strongest to the weakest."""
