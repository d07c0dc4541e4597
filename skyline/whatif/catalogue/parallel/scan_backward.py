"""What if the gradients between layers came from a parallel scan over Jacobians, and not from layer after layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from skyline.errors import UsageError
from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind, WorkClass, work_class
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.facts import ModuleFact
from skyline.trace.record import OperatorShape, Phase
from skyline.units import plural
from skyline.whatif.base import Applicability, Provenance, Scenario, Semantics, Subject, UsualWhatIf
from skyline.whatif.constant import Constant
from skyline.whatif.cost.jacobian_scan import Jacobian, ScanDevice, best_depth, matrix_bytes, steps_in
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import shapes

_DENSE = Constant(0.3, 0.1, 0.6, "an assumption: share of the peak that products of many matrices reach")
_SPARSE = Constant(0.02, 0.002, 0.1, "an assumption: the share for products of sparse matrices")
_STEP_US = Constant(
    8.0, 3.0, 20.0, "an assumption: an operator of PyTorch's backward pass with the start of its kernel"
)
_BETWEEN = Constant(
    0.5, 0.4, 0.6, "a layer has two products of equal size; that for its weights waits for no other layer"
)
_CPU_BYTES_PER_US = Constant.at(10e3, "an assumption: a core moves 10 GB/s to and from memory")
_ENDS = ("value", "high", "low")
"""The ends of the constants for the likely, best and worst case: fast products and slow steps are best for a scan."""
_RECURRENT = ("RNN", "LSTM", "GRU")
_STEPS_FIRST = ("cudnn_rnn", "mkldnn_rnn")
"""Calls whose data has the steps before the batch, whatever order the layer takes."""
_BIAS_FIRST = ("aten::addmm",)
_MOST_DEVICES = Constant.at(100_000.0, "more devices than chains have products, as a limit of input")


@dataclass(frozen=True, slots=True)
class _Chain:
    """Consecutive layers with equal numbers of rows, or the steps of a recurrent layer, and their modules.

    ``between_us`` is the recorded time of gradients between them in an iteration, ``flop_per_us`` the rate of a CPU.
    """

    layers: tuple[Jacobian, ...]
    modules: tuple[str, ...]
    recurrent: bool = False
    between_us: float = 0.0
    flop_per_us: float = 0.0
    spec: GpuSpec | None = None

    def passes_us(self, devices: int, end: str = "value") -> list[float]:
        """The time of the pass by its number of levels of products, in µs, with an end of the constants."""
        return self._device(devices, end).passes_us(self.layers)

    def depth(self, devices: int) -> int:
        """The number of levels that is fastest in the likely case."""
        return best_depth(self.passes_us(devices))

    def gain(self, devices: int) -> float:
        """The speed-up of the scan over the usual pass."""
        passes = self.passes_us(devices)
        return passes[0] / passes[best_depth(passes)]

    def _device(self, devices: int, end: str) -> ScanDevice:
        # A step takes no longer than a recorded layer.
        seen = self.between_us / len(self.layers)
        if self.spec is not None:
            found = device_of(self.spec, devices, end)
            return replace(found, least_step_us=min(found.least_step_us, seen))
        rate, sparse = self.flop_per_us, getattr(_SPARSE, end) / _DENSE.value
        return ScanDevice(rate, sparse * rate, _CPU_BYTES_PER_US.value, min(CALL_US, seen), devices)


@dataclass(frozen=True, slots=True)
class ScanBackward(UsualWhatIf):
    """Replaces the time between layers of the backward pass by a scan with the best number of levels.

    BPPSA (Wang, Bai, Pekhimenko, MLSys 2020). Gradients of weights are computed as before.
    """

    name: str = "scan_backward"
    training_only: bool = True
    semantics: Semantics = Semantics.NUMERICS

    def title(self, value: str) -> str:
        """The change in a few words."""
        where = plural(int(value), "device") if value.isdecimal() else "several devices"
        return f"backward pass as a parallel scan over Jacobians on {where}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if products of Jacobians cost less than the steps that they save, on one device or on more."""
        chains = _chains(subject)
        if isinstance(chains, str):
            return Applicability.no(chains)
        alone, many = (max(one.gain(devices) for one in chains) for devices in (1, int(_MOST_DEVICES.value)))
        if alone > 1:
            return Applicability(True, values=("1",), default="1")
        return Applicability(True) if many > 1 else Applicability.no(_why_not(chains, 1 / many))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the backward products of each chain that gains."""
        devices = _devices(self.name, value)
        chains = _chains(subject)
        assert not isinstance(chains, str)
        gaining = [one for one in chains if one.gain(devices) > 1]
        cases = (_scanned(subject, scenario.graph, gaining, devices, end) for end in _ENDS)
        depths = [one.depth(devices) for one in gaining]
        held = sum(
            matrix_bytes(one.layers, depth) / devices for one, depth in zip(gaining, depths, strict=True)
        )
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                *(_said(len(one.layers), depth) for one, depth in zip(gaining, depths, strict=True)),
                *(() if gaining else (f"on {plural(devices, 'device')} the usual pass is the fastest",)),
                *(
                    (f"the layers lie on {devices} devices, and messages take no time",)
                    if devices > 1
                    else ()
                ),
                "layers form a chain: no residual connection goes around them",
                "zeros of products lie at random, and a kernel makes all products of a level at once",
            ),
            memory=lambda memory: memory.more("activations", Interval.exact(held)),
            provenance=Provenance.ASSUMED,
        )


def _devices(name: str, value: str) -> int:
    devices = int(value) if value.isdecimal() and len(value) < 7 else 0
    if not 1 <= devices <= _MOST_DEVICES.value:
        raise UsageError(
            f"{name}={value[:24]} is not possible" if value else f"{name} gains only on several devices",
            hint=f"{name}=8 for layers that lie on 8 devices.",
        )
    return devices


def _said(layers: int, depth: int) -> str:
    steps = steps_in(layers, depth)
    return f"{layers:,} layers or steps of one take {steps} steps with {plural(depth, 'level')} of products"


def _chains(subject: Subject) -> list[_Chain] | str:
    """The chains of two or more layers, or the reason why there are none."""
    profile, graph = subject.script, subject.operators
    if subject.on_gpu and gpu(subject) is None:
        return "the GPU is not known: see skyline gpus"
    recurrent = [one for one in profile.modules if one.library and one.class_name in _RECURRENT]
    chains = [chain for one in recurrent if (chain := _steps(subject, graph, one)) is not None]
    inside = {one.path for one in recurrent}
    zeros = {one.path: one.weights for one in profile.values.zeros} if profile.values is not None else {}
    alike: list[tuple[Jacobian, str]] = []
    for path, shape in _forward(subject, graph):
        if path in inside:
            continue
        if shape is None:
            return "the sizes of the layers were not recorded"
        if "attention" in shape.operator or (len(_weight(shape)) > 2 and not _is_convolution(shape)):
            named = shape.operator.rpartition("::")[2]
            return f"its layers do not form a chain: {named} multiplies activations with each other"
        layer = _layer(shape, 1 - zeros.get(path, 0.0))
        if layer is None:
            continue
        if alike and alike[-1][0].rows != layer.rows:
            chains += _closed(alike)
            alike = []
        alike.append((layer, path))
    chains += _closed(alike)
    known = [found for one in chains if (found := _timed(subject, one)).between_us > 0]
    return known or "no two layers whose backward work is known follow each other"


def _timed(subject: Subject, chain: _Chain) -> _Chain:
    graph, spec = subject.operators, gpu(subject)
    took = float(graph.durations[_backward(subject, graph, chain)].sum()) / max(1, len(graph.iterations))
    rate = _best_rate(subject) if spec is None else 0.0
    return replace(chain, between_us=_BETWEEN.value * took, flop_per_us=rate, spec=spec)


def _forward(subject: Subject, graph: Graph) -> Iterator[tuple[str, OperatorShape | None]]:
    """The products of a forward pass: the path of the module and the operator call."""
    kind = TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU
    works = (WorkClass.MATMUL, WorkClass.CONVOLUTION, WorkClass.ATTENTION)
    first = graph.iterations[0]
    chosen = select(graph, kind=kind, work=works, phase=Phase.FORWARD, iteration=first)
    modules = graph.structure.modules
    numbered: list[int] = graph.tasks.module[chosen].tolist()
    paths = [modules[one] if one >= 0 else "" for one in numbered]
    yield from zip(paths, shapes(subject, graph, chosen), strict=True)


def _steps(subject: Subject, graph: Graph, module: ModuleFact) -> _Chain | None:
    """The steps of a recurrent layer, chained by its state; None if their number is not known."""
    width = module.options.get("hidden_size")
    inside = select(graph, phase=Phase.FORWARD, layer=module.path, iteration=graph.iterations[0])
    for shape in shapes(subject, graph, inside):
        if shape is None or not shape.inputs or len(shape.inputs[0]) != 3 or not isinstance(width, int):
            continue
        first, second, _ = shape.inputs[0]
        steps_first = any(name in shape.operator for name in _STEPS_FIRST) or not module.options.get(
            "batch_first"
        )
        steps, rows = (first, second) if steps_first else (second, first)
        # The state of an LSTM is its output and its cell.
        state = width * (2 if module.class_name == "LSTM" else 1)
        layer = Jacobian.of_layer(state, state, state * state, rows, 1.0)
        return _Chain((layer,) * steps, (module.path,), recurrent=True) if steps > 1 else None
    return None


def _weight(shape: OperatorShape) -> tuple[int, ...]:
    """The dimensions of the second factor."""
    place = 2 if shape.operator in _BIAS_FIRST else 1
    return shape.inputs[place] if len(shape.inputs) > place else ()


def _is_convolution(shape: OperatorShape) -> bool:
    return work_class(shape.operator) is WorkClass.CONVOLUTION


def _layer(shape: OperatorShape, density: float) -> Jacobian | None:
    """The Jacobian of a linear layer or a convolution; None for a call without arithmetic."""
    data = shape.inputs[1 if shape.operator in _BIAS_FIRST else 0] if shape.inputs else ()
    weight = _weight(shape)
    if not shape.flops or len(data) < 2 or len(weight) < 2:
        return None
    if not _is_convolution(shape):
        rows = float(prod(data[:-1]))
        inputs, each = float(data[-1]), float(data[-1])
    else:
        rows, inputs, each = float(data[0]), float(prod(data[1:])), float(prod(weight[1:]))
    if not rows or not inputs or not each:
        return None
    operator = shape.flops / 2 / rows
    return Jacobian.of_layer(inputs, operator / each, operator, rows, density)


def _closed(alike: Sequence[tuple[Jacobian, str]]) -> list[_Chain]:
    return (
        [_Chain(tuple(layer for layer, _ in alike), tuple(path for _, path in alike))]
        if len(alike) > 1
        else []
    )


def device_of(spec: GpuSpec, devices: int, end: str = "value") -> ScanDevice:
    """The rates of a GPU for a scan; ``end`` names the end of the constants."""
    peak = spec.tflops_fp32 * 1e6
    dense, sparse, step = (getattr(one, end) for one in (_DENSE, _SPARSE, _STEP_US))
    return ScanDevice(dense * peak, sparse * peak, spec.bandwidth_gb_s * 1e3, step, devices)


def _best_rate(subject: Subject) -> float:
    """The highest rate of a recorded product of the forward pass, in FLOP per µs."""
    graph = subject.operators
    chosen = select(graph, kind=TaskKind.CPU, phase=Phase.FORWARD)
    known = zip(shapes(subject, graph, chosen), graph.durations[chosen].tolist(), strict=True)
    return max(
        (one.flops / took for one, took in known if one is not None and one.flops and took > 0), default=1e4
    )


def _why_not(chains: Sequence[_Chain], longer: float) -> str:
    longest = max(chains, key=lambda one: one.passes_us(1)[0])
    pairs = zip(longest.layers[::2], longest.layers[1::2], strict=False)
    first, later = max(pairs, key=lambda pair: pair[0].rows * pair[0].multiplications(pair[1]))
    product = 2 * first.rows * first.multiplications(later)
    operator = 2 * first.rows * (first.operator or first.nonzeros)
    return (
        f"a scan takes {longer:.2g} times as long on any number of devices: a product of two Jacobians takes "
        f"{product / 1e9:.3g} GFLOP, a layer's gradient {operator / 1e9:.3g} GFLOP"
    )


def _scanned(subject: Subject, graph: Graph, chains: Sequence[_Chain], devices: int, end: str) -> Graph:
    for chain in chains:
        passes = chain.passes_us(devices, end)
        # The depth is chosen for the likely case.
        ratio = passes[chain.depth(devices)] / passes[0]
        share = getattr(_BETWEEN, end)
        graph = scale(graph, _backward(subject, graph, chain), max(0.0, 1 - share + share * ratio))
    return graph


def _backward(subject: Subject, graph: Graph, chain: _Chain) -> Indices:
    kind = TaskKind.KERNEL if subject.on_gpu else TaskKind.CPU
    works = None if chain.recurrent else (WorkClass.MATMUL, WorkClass.CONVOLUTION)
    return select(graph, kind=kind, work=works, phase=Phase.BACKWARD, layer=tuple(set(chain.modules)))


WHATIF = ScanBackward()
