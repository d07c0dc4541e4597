"""SKY306: most multiplications of the layers have a zero as a factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import step_ms
from skyline.findings.lines import place_of_module
from skyline.graph.selection import select
from skyline.graph.task import TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.trace.tensor_values import LayerZeros
from skyline.units import format_ms, format_share, plural
from skyline.whatif.subject import Subject

_SHARE = 0.5
"""Least share of the multiplications. TensorDash (Mahmoud and others, 2020) simulates a unit that is 1.95
times as fast on such models."""
PRODUCTS_SHARE = 0.3
"""Least share of products and convolutions in the iteration. Below it, their zeros hardly matter."""
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
_OF_WEIGHTS = 2 / 3
"""Share of a layer's three products that have the weights as a factor: the result, and the gradient of the input."""
_SPARSE_SPEEDUP = 2.0
"""Peak rate of matrix units if two of four weights are zero, relative to dense weights (NVIDIA, A100 whitepaper)."""


@dataclass(frozen=True, slots=True)
class ZeroOperands:
    """At least half of the multiplications in layers that dominate the iteration have a measured zero as a factor."""

    code: str = "SKY306"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the layer with the most of them; it has no cost, because no GPU skips single zeros."""
        values = subject.script.values
        if values is None or not values.zeros:
            return None
        layers = values.zeros
        skipped = _skipped(layers)
        multiplying_ms = products_ms(subject)
        if skipped < _SHARE or multiplying_ms < PRODUCTS_SHARE * step_ms(subject):
            return None
        first = max(layers, key=lambda layer: layer.multiplications * _skipped((layer,)))
        return Finding.at(
            self.code,
            f"{format_share(skipped)} of the multiplications of {plural(len(layers), 'layer')} have a zero as a factor",
            place_of_module(subject, first.path),
            0.0,
            None,
            (
                Evidence(
                    f"zeros, by multiplications: inputs {_mean(layers, lambda one: one.inputs)}, gradients of results "
                    f"{_mean(layers, lambda one: one.gradients)}, weights {_mean(layers, lambda one: one.weights)}"
                ),
                Evidence(
                    f"bound: a unit that skips every zero would save {format_ms(skipped * multiplying_ms)} of the "
                    f"{format_ms(multiplying_ms)} of products; processors and GPUs have no such unit"
                ),
                Evidence(
                    "bound: 2:4 sparsity, two of four weights zero, would save "
                    f"{format_ms(_OF_WEIGHTS * (1 - 1 / _SPARSE_SPEEDUP) * multiplying_ms)} on GPUs of compute "
                    "capability 8.0 and more; it changes the training"
                ),
                Evidence.at(
                    f"{first.path}: {format_share(_skipped((first,)))}", place_of_module(subject, first.path)
                ),
            ),
        )


def _skipped(layers: Sequence[LayerZeros]) -> float:
    """The share of the multiplications in which the factor with more zeros is zero.

    A layer has three products: of inputs and weights, of gradients and weights, and of gradients and inputs.
    """
    total = zero = 0.0
    for layer in layers:
        gradients = layer.gradients or 0.0
        pairs = (layer.inputs, layer.weights), (gradients, layer.weights), (gradients, layer.inputs)
        total += 3 * layer.multiplications
        zero += layer.multiplications * sum(map(max, pairs))
    return zero / total if total else 0.0


def _mean(layers: Sequence[LayerZeros], of: Callable[[LayerZeros], float | None]) -> str:
    known = [(of(layer), layer.multiplications) for layer in layers]
    weighed = [(share, count) for share, count in known if share is not None]
    total = sum(count for _, count in weighed)
    return format_share(sum(share * count for share, count in weighed) / total) if total else "unknown"


def products_ms(subject: Subject) -> float:
    """Time of products and convolutions in an iteration."""
    kind = TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU
    graph = subject.operators
    found = select(graph, work=_PRODUCTS, kind=kind, phase=(Phase.FORWARD, Phase.BACKWARD))
    return float(graph.durations[found].sum()) / 1e3 / max(1, subject.steps)


RULE = ZeroOperands()
