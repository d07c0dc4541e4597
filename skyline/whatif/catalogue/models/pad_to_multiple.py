"""What if the sizes of layers were multiples that suit matrix units."""

from __future__ import annotations

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase
from skyline.whatif.base import Applicability, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.alignment import Odd, element_bytes, odd_layers
from skyline.whatif.memory import Memory
from skyline.whatif.question import whole_number

_VALUES = (8, 64, 128)
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
_FIRST_WITH_MATRIX_UNITS = (7, 0)
_VALUE_BYTES = 4


@dataclass(frozen=True, slots=True)
class PadToMultiple(UsualWhatIf):
    """Scales the products of layers with odd sizes, and adds the padding to the memory."""

    name: str = "pad_to_multiple"
    semantics: Semantics = Semantics.CONVERGENCE

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"pad the sizes of layers to multiples of {value or 'eight or more'}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if matrix units of a GPU multiply matrices of odd sizes."""
        profile = subject.script
        if not subject.on_gpu:
            return Applicability.no(
                "only matrix units of GPUs depend on the sizes; on a CPU padding adds work"
            )
        if not profile.modules or profile.settings is None:
            return Applicability.no("the layers of the model are not known; profile it again")
        capability = profile.settings.compute_capability
        if capability is not None and capability < _FIRST_WITH_MATRIX_UNITS:
            return Applicability.no("this GPU has no matrix units")
        if not element_bytes(profile):
            return Applicability.no("its products are in float32 without TF32: they do not use matrix units")
        values = tuple(str(value) for value in _VALUES if odd_layers(profile, value))
        if not values:
            return Applicability.no("the sizes of all layers are multiples of 8")
        if not len(_products(subject.graph_of(self.grain), odd_layers(profile, int(values[0])))):
            return Applicability.no("no product of a layer with odd sizes was recorded")
        return Applicability(True, values=values, default=values[0])

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the products by the gain of alignment and the cost of additional arithmetic."""
        multiple = whole_number(self.name, value)
        if multiple > 1024:
            raise UsageError(
                f"{self.name}={value} is not possible", hint=f"Give 8, 64 or 128: {self.name}=64."
            )
        profile = subject.script
        layers = odd_layers(profile, multiple)
        size = element_bytes(profile) or _VALUE_BYTES
        cases = (
            _scaled(scenario.graph, layers, [layer.factor(size).ends[end] for layer in layers])
            for end in range(3)
        )
        added = sum(layer.added for layer in layers)
        held = max(1, sum(one.parameter_count for one in profile.optimizers))
        state = sum(one.state_bytes for one in profile.optimizers) / held

        def with_more(memory: Memory) -> Memory:
            own = Interval.exact(added * _VALUE_BYTES)
            grown = memory.more("parameters", own).more("gradients", own)
            return grown.more("optimizer", Interval.exact(added * state))

        # Predicted times assume aligned sizes: real products would be slower now, so the padded times are
        # right.
        predicted = ("predicted times are those of aligned sizes: only the change counts",)
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                *(predicted if profile.prediction is not None else ()),
                f"{len(layers)} layers are padded, by {added:,.0f} parameters in all; sizes from the data stay",
                "sizes that 16 bytes do not divide make kernels slower, by as much as NVIDIA's guide shows",
            ),
            memory=with_more,
        )


def _scaled(graph: Graph, layers: tuple[Odd, ...], factors: list[float]) -> Graph:
    for layer, factor in zip(layers, factors, strict=True):
        graph = scale(graph, _products(graph, (layer,)), factor)
    return graph


def _products(graph: Graph, layers: tuple[Odd, ...]) -> Indices:
    """The kernels that multiply matrices for these layers."""
    return select(
        graph,
        kind=TaskKind.KERNEL,
        work=_PRODUCTS,
        phase=(Phase.FORWARD, Phase.BACKWARD),
        layer=tuple(layer.module.path for layer in layers),
    )


WHATIF = PadToMultiple()
