"""A constant of a model: its range, its source, and the scripts and the machine that it was fitted on."""

from __future__ import annotations

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass

XEON = "two cores of an Intel Xeon"
EPYC = "two cores of an AMD EPYC"
EXAMPLES = ("examples/image_classifier.py", "examples/recommender.py", "examples/small_gpt.py")
"""The scripts of this repository that most constants were fitted on."""


@dataclass(frozen=True, slots=True)
class Constant(Interval):
    """A constant of the model in the same module, with its low and high end.

    ``set_on`` names the scripts that the value was fitted on. It is empty if the constant was measured
    directly or comes from the literature. None of these scripts counts as unseen by that model
    (``benchmarks/held_out.toml``).
    """

    source: str
    """Where the value comes from: a script of ``benchmarks/``, a publication, or the reasoning behind it."""
    set_on: tuple[str, ...] = ()
    machine: str = ""
    """The machine that it was measured on; empty if it was not measured."""

    @classmethod
    def at(cls, value: float, source: str, set_on: tuple[str, ...] = (), machine: str = "") -> Constant:
        """A constant without a range: the range of the answer comes from the other constants of its model."""
        return cls(value, value, value, source, set_on, machine)


FLOAT_BYTES = Constant.at(4.0, "the width of a number in float32")
WORTH_ASKING = Constant.at(0.01, "the share of an iteration below which no change is worth asking for")
CACHE_BYTES = Constant.at(32e6, "an assumption for a profile that does not know it: a last-level cache")
