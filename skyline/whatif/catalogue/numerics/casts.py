"""Products under autocast, and the casts that it inserts: their count, their numbers, and the cost of their calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import prod

import numpy as np

from skyline.graph.column import Flags, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import HEAVY, KIND, PHASE, WORK, TaskKind, WorkClass, is_operator
from skyline.lazy_dataclass import dataclass
from skyline.trace.facts import ModuleFact
from skyline.trace.kineto.category import GPU_WORK
from skyline.trace.record import PASSES, OperatorShape, Phase
from skyline.trace.trial import PRODUCTS
from skyline.whatif.constant import EPYC, Constant
from skyline.whatif.cost.operator_call import MOST_US, call_us
from skyline.whatif.subject import Subject, shapes

_BENCHMARK = "benchmarks/autocast_calls.py"
CASTS = Constant(
    1.2,
    0.9,
    1.6,
    f"{_BENCHMARK}: the time of a cast over that of a small operator: 1.2 in a forward pass, 0.9 in a backward one",
    machine=EPYC,
)
_ONE_DNN = Constant(
    6.0,
    4.0,
    8.0,
    f"{_BENCHMARK}: oneDNN prepares a product in each call, which takes so many small operators of a forward pass "
    "longer than a call of the float32 library; 6.0 forward, and backward 6.6 for each of two products",
    machine=EPYC,
)
_ONE_DNN_FROM = Constant.at(
    16**3,
    "PyTorch computes products of up to so many multiplications by itself (``mkldnn_gemm_min_size`` in ATen)",
)
_MOST_CALL_US = Constant.at(
    5.0, "an assumption: where all recorded operators compute more than nothing, a small one takes no longer"
)
_TO_FLOAT32 = re.compile(r"aten::\w*(loss|cross_entropy|kl_div)|aten::(cdist|prod|grid_sampler|avg_pool3d)")
"""Operators whose inputs autocast casts to float32 on a CPU (PyTorch, "CPU Ops that can autocast to float32")."""
_BACK = Constant.at(
    2.0, "products of a backward pass for each of the forward one: of the input and of the weight"
)
_AS_FAR_BACK = 20
_PASSES_ON = frozenset({
    "", "view", "_unsafe_view", "reshape", "flatten", "transpose", "permute", "contiguous", "unsqueeze", "squeeze",
    "expand", "split", "chunk", "slice", "select", "t", "detach", "dropout", "clone", "add_",
})  # fmt: skip
"""Operators whose result has the format of their input; the empty name is Python between operators."""
_STAYS_NARROW = frozenset({
    "batch_norm", "relu", "relu_", "gelu", "silu", "sigmoid", "tanh", "leaky_relu", "hardtanh", "softmax", "mean",
    "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d", "max_pool1d",
})  # fmt: skip
"""Operators that autocast on a CPU leaves in 16 bits after a product."""
KEEP_WIDE_ON_GPU = re.compile(r"softmax|layer_norm|group_norm|rms_norm|loss|aten::pow")
KEEP_NARROW = re.compile(r"relu|gelu|silu|sigmoid|tanh|dropout|pool|batch_norm|softmax")
"""Operators that keep their inputs in float32 on a GPU, or in 16 bits on either device, by autocast's lists. Batch
norms take either format."""
CAST_BYTES = Constant.at(6, "4 bytes are read and 2 written for each number, or the other way round")
_OF_ACTIVATIONS = re.compile(r"bmm|matmul|einsum|attention|flash|fmha", re.IGNORECASE)
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
USUAL_CASTS = {Phase.FORWARD: 2.0, Phase.BACKWARD: 1.0}
"""Casts for each kernel of a product with a weight if shapes are unknown: a weight, and its bias or often an
input; in the backward pass, the gradient of one of them."""
_OF_TWO_ACTIVATIONS = ("aten::bmm", "aten::baddbmm", "aten::matmul", "aten::einsum")
_OWN_LAUNCHES = Constant.at(
    10.0,
    "``torch.amp.GradScaler`` calls so many kernels and copies a step: the scale of the loss, its inverse, the flag "
    "for infinities and what reads and updates them",
)
_MOST_LAUNCH_US = Constant.at(
    40.0, "an assumption: an operator that takes longer between two launches does other work than a cast"
)
_WALK = Constant.at(
    0.15,
    "an assumption: Python looks at a gradient before it is unscaled in this part of the time of a call with a launch",
)
_ADDS = ("aten::add", "aten::add_")
_BESIDE_BIAS = ("aten::addmm", "aten::baddbmm")
"""Operators whose first input is added to the product of the others."""


def heavy_tasks(subject: Subject, graph: Graph) -> Indices:
    """The work of matrix units in the passes over the model: kernels with a GPU, operators without one."""
    if subject.on_gpu:
        return recorded(subject, graph, select(graph, work=HEAVY, phase=PASSES, kind=TaskKind.KERNEL))
    return select(graph, work=HEAVY, phase=PASSES, kind=TaskKind.CPU)


def recorded(subject: Subject, graph: Graph, chosen: Indices) -> Indices:
    """The chosen tasks without the work of CUDA graphs in pauses of a trace, which was not recorded."""
    if subject.recording is None:
        return chosen
    origin = np.maximum(graph.tasks.origin[chosen], 0)
    return chosen[np.isin(subject.recording.trace.category[origin], GPU_WORK)]


@lru_cache(maxsize=1 << 12)
def of_activations(name: str) -> bool:
    """True if a product of this name multiplies two activations."""
    return _OF_ACTIVATIONS.search(name) is not None


def has_weight(subject: Subject, graph: Graph, heavy: Indices) -> Flags:
    """Flags of products with a parameter; products of two activations have none."""
    if subject.profile is None:
        # A trace has many products of few names.
        return ~graph.tasks.named(of_activations)[heavy]
    codes: list[int] = graph.tasks.name[heavy].tolist()
    called = zip(shapes(subject, graph, heavy), codes, strict=True)
    names = (graph.tasks.names[code] if shape is None else shape.operator for shape, code in called)
    return np.array([not of_activations(one) for one in names], np.bool_)


def wide_inputs(graph: Graph, products: Indices, operators: Flags | None = None) -> list[bool]:
    """Flags of forward products with a float32 input under autocast: no operator before it returns 16 bits.

    ``operators`` flags the tasks to consider, None for all: a GPU's kernels and launches lie between
    operators, and split an operator into several tasks.
    """
    order = np.arange(len(graph)) if operators is None else np.flatnonzero(operators)
    tasks, found = graph.tasks, list[bool]()
    names = [name.removeprefix("aten::") if name.startswith("aten::") else "" for name in tasks.names]
    for place in np.searchsorted(order, products).tolist():
        before = place - 1
        while operators is not None and before >= 0 and tasks.name[order[before]] == tasks.name[order[place]]:
            before -= 1
        while before >= max(0, place - _AS_FAR_BACK) and names[tasks.name[order[before]]] in _PASSES_ON:
            before -= 1
        name = names[tasks.name[order[before]]] if before >= 0 else ""
        found.append(not (name in _STAYS_NARROW or f"aten::{name}" in PRODUCTS))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Casts:
    """The casts that each operator needs: the number of calls, and the numbers of the recorded batch that they read.

    ``weights`` counts the numbers that do not grow with the batch.
    """

    calls: Times
    numbers: Times
    weights: Times

    def of(self, chosen: Flags) -> Casts:
        """The casts of some of the operators."""
        return Casts(self.calls[chosen], self.numbers[chosen], self.weights[chosen])

    def bytes_read(self, each: float, larger: float) -> Times:
        """The bytes read, with ``each`` bytes per number, in a batch ``larger`` times as large."""
        return each * (self.weights + larger * (self.numbers - self.weights))


def casts_of(subject: Subject, graph: Graph, products: Indices) -> Casts:
    """The casts that products need, in both passes.

    Autocast casts trained weights of a module once between entering and leaving, however often the module is
    called (PyTorch keeps the copies of leaf tensors that require gradients). It casts other weights, and
    inputs in float32, in each call. The backward pass casts the gradient of each. These casts are spread over
    all products there, because their assignment is not recorded.
    """
    calls, numbers, weights = (np.zeros(len(products)) for _ in range(3))
    forward = graph.tasks.phase[products] == PHASE[Phase.FORWARD]
    places = np.flatnonzero(forward)
    rows = products[places]
    facts = {one.path: one for one in subject.script.modules}
    paths = (*graph.structure.modules, "")
    called, widened = shapes(subject, graph, rows), _widened(subject, graph, facts)
    wide = np.array(wide_inputs(graph, rows), np.bool_) | widened[graph.tasks.module[rows]]
    for place, row, shape, is_wide in zip(places.tolist(), rows.tolist(), called, wide.tolist(), strict=True):
        if shape is None:
            calls[place] = 1.0 + is_wide
            continue
        fact = facts.get(paths[int(graph.tasks.module[row])])
        kept, given = _operands(graph.tasks.names[int(graph.tasks.name[row])], shape, fact)
        share = 1.0 / max(1.0, fact.calls_per_iteration) if fact is not None and fact.trainable else 1.0
        calls[place] = share * len(kept) + is_wide * len(given)
        weights[place] = share * sum(map(prod, kept))
        numbers[place] = weights[place] + is_wide * sum(map(prod, given))
    if forward.any() and not forward.all():
        for one in (calls, numbers, weights):
            one[~forward] = one[forward].sum() / np.count_nonzero(~forward)
    return Casts(calls, numbers, weights)


def casts_to_float32(subject: Subject, graph: Graph) -> tuple[Indices, Casts]:
    """The operators that compute in float32 after products, such as losses, and the casts of the products' results."""
    chosen = select(graph, phase=Phase.FORWARD, kind=TaskKind.CPU, lane=subject.lane)
    chosen = chosen[graph.tasks.named(_TO_FLOAT32.match)[chosen]]
    chosen = chosen[~np.array(wide_inputs(graph, chosen), np.bool_)]
    known = shapes(subject, graph, chosen)
    numbers = np.array(
        [prod(one.inputs[0]) if one is not None and one.inputs else 0 for one in known], np.float64
    )
    return chosen, Casts(np.ones(len(chosen)), numbers, np.zeros(len(chosen)))


def small_operator_us(subject: Subject, phase: Phase) -> float:
    """The time in µs of an operator of this pass that computes next to nothing, with the gap to the next one.

    If all operators of one pass compute more, the other pass is used.
    """
    passes = (phase, *(one for one in PASSES if one is not phase))
    known = (call_us(subject, subject.operators, one) for one in passes)
    return min(_MOST_CALL_US.value, next((one for one in known if one < MOST_US), MOST_US))


def further_call_us(subject: Subject, graph: Graph, products: Indices, larger: float, end: str) -> Times:
    """The additional time of each product's call in 16 bits, in µs, if oneDNN replaces another library."""
    found = np.zeros(len(products))
    plain = graph.tasks.work[products] == WORK[WorkClass.MATMUL]
    forward = graph.tasks.phase[products] == PHASE[Phase.FORWARD]
    places = np.flatnonzero(plain & forward)
    for place, shape in zip(places.tolist(), shapes(subject, graph, products[places]), strict=True):
        found[place] = shape is None or not shape.flops or larger * shape.flops / 2 > _ONE_DNN_FROM.value
    back = plain & ~forward
    if back.any():
        # The forward product of a backward node is not recorded.
        found[back] = _BACK.value * found.sum() / np.count_nonzero(back) if len(places) else _BACK.value
    return found * getattr(_ONE_DNN, end) * small_operator_us(subject, Phase.FORWARD)


def calls_apart(
    subject: Subject, before: Graph, after: Graph, seen: Flags, casts: Casts, products: Indices
) -> Graph:
    """The graph with the calls of casts as host time, for operators that were measured together with their casts.

    A compiler of the model removes these calls. The moved time is at most the measured additional time of
    these operators. ``casts`` are the casts of ``products`` among the ``seen`` tasks.
    """
    durations, gaps = after.durations.copy(), after.gaps.copy()
    for phase in PASSES:
        own = select(after, phase=phase, kind=TaskKind.CPU, lane=subject.lane)
        own = own[seen[own]]
        longer_us = np.maximum(0.0, after.durations[own] - before.durations[own])
        together_us = float(longer_us.sum())
        of_phase = after.tasks.phase[products] == PHASE[phase]
        calls_us = CASTS.value * float(casts.calls[of_phase].sum()) * small_operator_us(subject, phase)
        if together_us > 0:
            moved_us = longer_us * min(1.0, calls_us / together_us)
            durations[own] -= moved_us
            gaps[own] += moved_us
    return after.with_times(durations, gaps)


def _operands(
    name: str, shape: OperatorShape, fact: ModuleFact | None
) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """The sizes of a product's parameters, and of its other inputs."""
    sizes = [one for one in shape.inputs if one]
    own = fact is not None and fact.parameter_count > 0
    if len(sizes) < 2 or (of_activations(name) and not (own and name == "aten::matmul")):
        return [], sizes
    if name in _BESIDE_BIAS:
        return [sizes[0], *sizes[2:]], sizes[1:2]
    if name in ("aten::mm", "aten::matmul"):
        # Either side may be the parameter: the batch is assumed to have at least as many numbers as the
        # weight.
        kept = min((1, 0), key=lambda place: prod(sizes[place]))
        return [sizes[kept]], [sizes[1 - kept]]
    return sizes[1:], sizes[:1]


def _widened(subject: Subject, graph: Graph, facts: dict[str, ModuleFact]) -> Flags:
    """Flags of modules that add their own float32 parameter, which makes the sum float32.

    PyTorch's own layers add their parameter within the product. The last flag is for work outside of modules.
    """
    modules = graph.structure.modules
    written = np.array(
        [
            (fact := facts.get(path)) is not None and not fact.library and fact.parameter_count > 0
            for path in modules
        ]
        + [False]
    )
    found = np.zeros(len(modules) + 1, np.bool_)
    adds = graph.tasks.named(_ADDS.__contains__)
    chosen = select(graph, phase=Phase.FORWARD, kind=TaskKind.CPU)
    chosen = chosen[adds[chosen] & written[graph.tasks.module[chosen]]]
    for row, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True):
        sizes = [] if shape is None else [prod(one) for one in shape.inputs[:2] if one]
        if len(sizes) == 2 and sizes[0] != sizes[1]:
            found[int(graph.tasks.module[row])] = True
    return found


def cast_calls(subject: Subject, graph: Graph, weighted: Indices) -> Mapping[Phase, float]:
    """The number of casts that the host calls for each kernel of a product with a weight, by pass.

    Autocast casts each parameter of a product once, and its input if the operator before it returns float32.
    The backward pass casts the gradient of each. The shapes of the forward calls show the parameters: all
    inputs but one.
    """
    forward = select(graph, phase=Phase.FORWARD, kind=TaskKind.CPU, work=_PRODUCTS)
    forward = forward[~graph.tasks.named(_OF_TWO_ACTIVATIONS.__contains__)[forward]]
    called = [
        (row, one) for row, one in zip(forward.tolist(), shapes(subject, graph, forward), strict=True) if one
    ]
    if not called:
        return USUAL_CASTS
    rows = np.array([row for row, _ in called], np.int64)
    parameters = sum(max(1, len(shape.inputs) - 1) for _, shape in called)
    wide = sum(wide_inputs(graph, rows, graph.tasks.named(is_operator)))
    of_phase = {one: np.count_nonzero(graph.tasks.phase[weighted] == PHASE[one]) for one in PASSES}
    return {one: (parameters + wide) / count if count else 0.0 for one, count in of_phase.items()}


def launch_call_us(graph: Graph) -> float:
    """The host's time in µs for one more kernel called by an operator: the median time from launch to launch.

    Python between the operators does not count, because it calls no casts.
    """
    tasks = graph.tasks
    calls = np.unique(launches(graph).source)
    in_passes = np.isin(tasks.phase, [PHASE[one] for one in PASSES])
    calls = calls[in_passes[calls]]
    if not len(calls):
        return 0.0
    lane = tasks.lane[calls[0]]
    mine = np.isin(tasks.kind, [KIND[TaskKind.CPU], KIND[TaskKind.LAUNCH]]) & in_passes & (tasks.lane == lane)
    spent = np.cumsum(np.where(mine, graph.durations, 0.0))[calls[tasks.lane[calls] == lane]]
    return min(_MOST_LAUNCH_US.value, float(np.median(np.diff(spent, prepend=0.0))))


def scaler_call_us(subject: Subject, graph: Graph) -> float:
    """The host's time in µs in a ``GradScaler`` from the backward pass to its wait: calls, and a check per gradient."""
    tensors = (
        sum(one.tensor_count for one in subject.profile.optimizers) if subject.profile is not None else 0
    )
    return launch_call_us(graph) * (_OWN_LAUNCHES.value + _WALK.value * tensors)
