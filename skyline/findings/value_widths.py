"""SKY308: most values of the layers need few bits."""

from __future__ import annotations

from collections.abc import Sequence

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import step_ms
from skyline.findings.lines import place_of_module
from skyline.findings.zero_operands import PRODUCTS_SHARE, products_ms
from skyline.lazy_dataclass import dataclass
from skyline.trace.tensor_values import LayerWidths, ValueWidths
from skyline.units import format_bytes, format_share, plural
from skyline.whatif.subject import Subject

_STORED_BITS = 16
_SAVED = 0.5
"""Least share of the bits that is saved. A further format of half the width saves as much. Boveda (Edo
Vivancos and others, 2021, MLSys) stores values of neural networks in individual widths."""


@dataclass(frozen=True, slots=True)
class NarrowValues:
    """Inputs, weights and gradients of the layers need at most half of 16 bits if each value has its own width."""

    code: str = "SKY308"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the layer with the largest saving; there is no cost, as processors and GPUs store whole bytes."""
        values = subject.script.values
        if values is None or not values.widths:
            return None
        layers = values.widths
        every = [one for layer in layers for one in _parts(layer)]
        saved = _saved_bits(every) / max(1, _STORED_BITS * sum(one.numbers for one in every))
        if saved < _SAVED or products_ms(subject) < PRODUCTS_SHARE * step_ms(subject):
            return None
        first = max(layers, key=lambda layer: _saved_bits(_parts(layer)))
        stored_bytes = _STORED_BITS * sum(one.numbers for one in every) / 8
        return Finding.at(
            self.code,
            f"values of {plural(len(layers), 'layer')} need {_STORED_BITS * (1 - saved):.1f} of {_STORED_BITS} bits on "
            "average",
            place_of_module(subject, first.path),
            0.0,
            None,
            (
                Evidence(
                    f"inputs: {_words([layer.inputs for layer in layers])}; weights: "
                    f"{_words([layer.weights for layer in layers])}; gradients of results: "
                    f"{_words([layer.gradients for layer in layers if layer.gradients is not None])}"
                ),
                Evidence(
                    "upper bound: values stored in their own widths, without storing the widths, would save "
                    f"{format_bytes(_saved_bits(every) / 8)} of {format_bytes(stored_bytes)} in 16 bits, read and "
                    "written in an iteration; processors and GPUs store whole bytes"
                ),
                Evidence.at(
                    f"{first.path}: {format_bytes(_saved_bits(_parts(first)) / 8)} of these",
                    place_of_module(subject, first.path),
                ),
            ),
        )


def _parts(layer: LayerWidths) -> list[ValueWidths]:
    return [one for one in (layer.inputs, layer.weights, layer.gradients) if one is not None]


def _saved_bits(values: Sequence[ValueWidths]) -> float:
    return sum(one.numbers * (_STORED_BITS - one.mean_bits) for one in values)


def _words(values: Sequence[ValueWidths]) -> str:
    count = sum(one.numbers for one in values)
    if not count:
        return "unknown"
    eight, four, bits = (
        sum(one.numbers * getattr(one, name) for one in values) / count
        for name in ("in_eight_bits", "in_four_bits", "mean_bits")
    )
    return f"{format_share(eight)} in 8 bits, {format_share(four)} in 4, {bits:.1f} bits on average"


RULE = NarrowValues()
