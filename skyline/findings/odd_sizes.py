"""SKY303: layers have sizes that are slow on the GPU's matrix units."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.lazy_dataclass import dataclass
from skyline.whatif.catalogue.models.alignment import Odd, odd_layers
from skyline.whatif.subject import Subject

_SHARE = 0.02
_MULTIPLE = 8
"""NVIDIA, Matrix Multiplication Background User's Guide: multiples of 16 bytes, which are 8 numbers of 16 bits."""
_LAYERS = 4


@dataclass(frozen=True, slots=True)
class OddSizes:
    """Padding the sizes of layers to multiples of eight would save more than a fiftieth of the iteration."""

    code: str = "SKY303"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the largest such layer; the cost is the predicted saving of padding."""
        if not subject.on_gpu:
            return None
        layers = sorted(odd_layers(subject.script, _MULTIPLE), key=lambda odd: -odd.outputs * odd.inputs)
        if not layers:
            return None
        cure = f"pad_to_multiple={_MULTIPLE}"
        cost_ms = saved_ms(subject, cure)
        if cost_ms <= _SHARE * step_ms(subject):
            return None
        first = layers[0]
        others = f", and {len(layers) - 1} more" if len(layers) > 1 else ""
        return Finding.at(
            self.code,
            f"{_sizes(first)}{others}: multiples of {_MULTIPLE} would be faster",
            first.module.created_line,
            cost_ms,
            cure,
            tuple(Evidence.at(_sizes(odd), odd.module.created_line) for odd in layers[:_LAYERS]),
        )


def _sizes(odd: Odd) -> str:
    return f"{odd.module.class_name} {odd.module.path} is {odd.inputs} by {odd.outputs}"


RULE = OddSizes()
