"""The error of a change that no case of its model contains, from the errors of changes that were measured."""

from __future__ import annotations

from math import exp, log, sqrt

from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.subject import Subject

BEYOND_MODEL = Constant(
    0.085,
    0.058,
    0.111,
    "benchmarks/beyond_models.py: nine in ten of 211 changes on spent lists are off by less beyond their modelled "
    "range; the ends are those with one list left out",
    machine=EPYC,
)
"""Share of the iteration, in logarithms, for a change whose effect is ``WHOLE`` or more."""
WHOLE = Constant.at(
    0.05,
    "benchmarks/beyond_models.py: an assumption that the lists bear out; a smaller effect is off by less in proportion",
)
"""Effect of the changes together, in logarithms."""


def beyond_model(subject: Subject, ratio: float, changes: int) -> float:
    """The share by which the iteration may differ from each end of its modelled range, with so many changes made.

    ``ratio`` is the predicted iteration over the present one. Errors of several changes are independent: they grow with
    the root of their number. 0 for a script that was not measured on a processor, as for ``process_spread``.
    """
    if not subject.ran_on_cpu or ratio <= 0:
        return 0.0
    return exp(beyond(ratio, changes, BEYOND_MODEL.value)) - 1


def beyond(ratio: float, changes: int, whole: float) -> float:
    """The same in logarithms, where a single change of full effect has ``whole``."""
    return whole * sqrt(changes) * min(1.0, abs(log(ratio)) / WHOLE.value)
