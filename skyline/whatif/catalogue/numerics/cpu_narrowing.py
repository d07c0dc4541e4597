"""The effect of autocast on each CPU operator, from trials or typical factors, and the casts between formats."""

from __future__ import annotations

from math import prod

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import PHASE, WORK, TaskKind, WorkClass
from skyline.interval import ENDS
from skyline.trace.record import PASSES, Phase
from skyline.whatif.catalogue.numerics.casts import (
    CAST_BYTES,
    CASTS,
    Casts,
    calls_apart,
    casts_of,
    casts_to_float32,
    further_call_us,
    heavy_tasks,
    of_activations,
    small_operator_us,
)
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.cost.operator_call import dispatch_us
from skyline.whatif.cost.thread_scaling import gained, threads_of, tried_products
from skyline.whatif.subject import Subject, shapes

_CPU_BYTES_PER_US = Constant.at(20e3, "an assumption: 20 GB/s between a core and memory")
NATIVE_CPU = Constant(
    0.45,
    0.3,
    0.75,
    "bfloat16 over float32: linear layers 0.35 to 0.5, batches of small matrices 0.6 to 0.7, convolutions 0.2 to 0.9",
    machine="a CPU with AVX512-BF16",
)
CPU_ATTENTION = Constant(
    1.1,
    0.85,
    1.4,
    "fused attention in bfloat16 over float32 on CPUs, with and without instructions for it",
    machine="CPUs with and without AVX512-BF16",
)
_CPU_ATTENTION_ROW_US = Constant(
    1.7,
    0.3,
    2.2,
    "µs more in its backward pass for each position of each head: 1.7 up to 128 positions, at widths of 16 to 96",
    machine="a CPU with AVX512-BF16",
)
_LONG_ROWS = Constant.at(192, "``sdp_flash`` of PyTorch on CPUs: from this many positions blocks are larger")
_LONG_ROW_SHARE = Constant.at(
    0.35, "the time of such a position over that of one in a short row", machine="a CPU with AVX512-BF16"
)
_CPU_ROWS_PART = Constant.at(0.9, "an assumption: the part of that which threads divide")
_WITHIN = "operators within whole scripts, on tensors too large for a core's caches: half the bytes come from memory"
_CPU_LIGHT = {
    "aten::batch_norm": Constant(0.4, 0.3, 0.8, _WITHIN, EXAMPLES, XEON),
    "NativeBatchNormBackward0": Constant(0.8, 0.65, 0.9, _WITHIN, EXAMPLES, XEON),
    "aten::relu": Constant(0.5, 0.4, 1.0, _WITHIN, EXAMPLES, XEON),
    "aten::relu_": Constant(0.5, 0.4, 1.0, _WITHIN, EXAMPLES, XEON),
    "aten::gelu": Constant(0.55, 0.5, 1.0, _WITHIN, EXAMPLES, XEON),
    "GeluBackward0": Constant(0.7, 0.6, 1.0, _WITHIN, EXAMPLES, XEON),
}
"""With their tensors in a cache, most of these take as long as before; batch normalization is still faster."""
_CPU_LIGHT_FROM = 1 << 19
"""The least count of numbers in such a large tensor: two megabytes in float32."""
_TRIED = Constant(
    1.0, 0.8, 1.25, "an assumption: within a script tensors are in other caches than when tried by itself"
)
_IN_PLACE = Constant(
    1.0, 0.9, 1.12, "an assumption: what was tried within the script is nearer than what was tried by itself"
)
_STANDING = {
    (WorkClass.MATMUL, False): 0.38,
    (WorkClass.MATMUL, True): 0.38,
    (WorkClass.CONVOLUTION, False): 0.25,
    (WorkClass.CONVOLUTION, True): 0.05,
}
"""The share of the time in 16 bits that does not grow with the batch, by class and pass (True: backward):
each call casts a weight and changes its layout. Products of two activations have no weight, and their share
is 0. With four times the batch, products took 0.66 to 0.76 times the time that one factor predicts; with a
quarter, convolutions took 1.75 times, backward 1.1 times. Elementwise operators keep their factor."""
_MOST_LARGER = 8.0
EMULATED_CPU = Constant(
    2.3,
    1.7,
    3.0,
    "oneDNN computes bfloat16 with AVX-512 instructions for float32: 1.9 to 2.8 times the time",
    machine="a CPU with AVX-512 and no bfloat16",
)


def narrowed_on_cpu(
    subject: Subject, graph: Graph, target: str, larger: float = 1.0
) -> tuple[Graph, Graph, Graph]:
    """The graph of a CPU under autocast, in a batch ``larger`` times as large: likely, best and worst case."""
    everything = heavy_tasks(subject, graph)
    in_place = iteration_factors(subject, graph, target, larger)
    seen = np.isfinite(in_place)
    heavy, known = everything[~seen[everything]], everything[seen[everything]]
    tried = tried_factors(subject, graph, heavy, larger)
    pythons = python_factors(subject, graph, target)
    beside, within = (casts_of(subject, graph, one) for one in (heavy, known))
    losses, of_losses = casts_to_float32(subject, graph)
    unseen = ~seen[losses]
    ends: list[Graph] = []
    for end in ENDS:
        usual = _as_usual(subject, graph, heavy, tried, in_place, end, larger)
        changed = _in_place(usual, in_place, pythons, getattr(_IN_PLACE, end))
        changed = calls_apart(subject, graph, changed, seen, within, known)
        changed = _with_casts(subject, changed, heavy, beside, end, larger)
        ends.append(
            _with_casts(subject, changed, losses[unseen], of_losses.of(unseen), end, larger, back=heavy)
        )
    likely, least, most = ends
    return likely, least, most


def emulated(features: tuple[str, ...]) -> bool:
    """True if a CPU with these instruction sets has no instructions for bfloat16."""
    return not any(feature in features for feature in ("amx_bf16", "avx512_bf16"))


def _as_usual(
    subject: Subject,
    graph: Graph,
    heavy: Indices,
    tried: npt.NDArray[np.float64],
    in_place: Times,
    end: str,
    larger: float,
) -> Graph:
    """The graph with products by separate trials or by typical factors, without their casts."""
    profile = subject.profile
    slow = profile is not None and emulated(profile.environment.cpu_features)
    factor: float = getattr(EMULATED_CPU if slow else NATIVE_CPU, end)
    durations = graph.durations.copy()
    known = np.isfinite(tried)
    durations[heavy[known]] *= tried[known] * getattr(_TRIED, end)
    unknown = heavy[~known]
    attention = unknown[graph.tasks.work[unknown] == WORK[WorkClass.ATTENTION]]
    products = np.setdiff1d(unknown, attention)
    called_us = _called_us(subject, graph, products)
    durations[products] = called_us + factor * (durations[products] - called_us)
    durations[products] += further_call_us(subject, graph, products, larger, end)
    durations[attention] *= getattr(CPU_ATTENTION, end)
    backward = attention[graph.tasks.phase[attention] == PHASE[Phase.BACKWARD]]
    backward_us: float = (
        getattr(_CPU_ATTENTION_ROW_US, end) * larger * gained(_CPU_ROWS_PART.value, threads_of(subject))
    )
    durations[backward] += backward_us * _attention_rows(subject, graph, backward)
    if not slow:
        following = _light_on_cpu(subject, graph, larger)
        following = following[~np.isfinite(in_place[following])]
        lighter = [getattr(_CPU_LIGHT[graph.tasks.names[name]], end) for name in graph.tasks.name[following]]
        durations[following] *= np.array(lighter, np.float64)
    return graph.with_times(durations=durations)


def _called_us(subject: Subject, graph: Graph, products: Indices) -> Times:
    """The call time of each product in µs, which another format does not shorten."""
    found = np.zeros(len(products))
    for phase in PASSES:
        of_phase = graph.tasks.phase[products] == PHASE[phase]
        found[of_phase] = min(
            small_operator_us(subject, phase), dispatch_us(subject, subject.operators, phase)
        )
    return np.minimum(found, graph.durations[products])


def _with_casts(
    subject: Subject,
    graph: Graph,
    chosen: Indices,
    casts: Casts,
    end: str,
    larger: float,
    back: Indices | None = None,
) -> Graph:
    """The graph with the casts of operators: their bytes as time of the operators, their calls as host time.

    ``back`` are products; those in the backward pass get the same casts for the gradients.
    """
    durations, gaps = graph.durations.copy(), graph.gaps.copy()
    forward = graph.tasks.phase[chosen] == PHASE[Phase.FORWARD]
    small_us = np.where(forward, *(small_operator_us(subject, phase) for phase in PASSES))
    calls = getattr(CASTS, end) * casts.calls
    bytes_us = casts.bytes_read(CAST_BYTES.value, larger) / _CPU_BYTES_PER_US.value
    gaps[chosen] += calls * small_us
    durations[chosen] += bytes_us
    if back is not None:
        back = back[graph.tasks.phase[back] == PHASE[Phase.BACKWARD]]
        gaps[back] += calls.sum() * small_operator_us(subject, Phase.BACKWARD) / max(1, len(back))
        durations[back] += bytes_us.sum() / max(1, len(back))
    return graph.with_times(durations, gaps)


def _in_place(graph: Graph, factors: Times, pythons: Times, sure: float) -> Graph:
    """The graph with times from the script's own tried iterations; other tasks keep their computed times."""
    known = np.isfinite(factors)
    durations = graph.durations.copy()
    durations[known] *= factors[known] * sure
    return graph.with_times(durations=durations, gaps=graph.gaps * pythons)


def _light_on_cpu(subject: Subject, graph: Graph, larger: float) -> Indices:
    """The operators of the passes that have their own factor, on large tensors."""
    chosen = select(graph, phase=PASSES, kind=TaskKind.CPU)
    chosen = chosen[graph.tasks.named(_CPU_LIGHT.__contains__)[chosen]]
    known = shapes(subject, graph, chosen)
    numbers = [prod(shape.inputs[0]) if shape is not None and shape.inputs else 0 for shape in known]
    return chosen[larger * np.array(numbers, np.float64) >= _CPU_LIGHT_FROM]


def _attention_rows(subject: Subject, graph: Graph, tasks: Indices) -> npt.NDArray[np.float64]:
    """The number of positions in all heads by task; positions of long sequences count for less."""
    rows = np.zeros(len(tasks))
    for place, shape in enumerate(shapes(subject, graph, tasks)):
        sizes = next((one for one in shape.inputs if len(one) > 2), None) if shape is not None else None
        if sizes is not None:
            rows[place] = prod(sizes[:-1]) * (_LONG_ROW_SHARE.value if sizes[-2] >= _LONG_ROWS.value else 1.0)
    return rows


def tried_factors(subject: Subject, graph: Graph, heavy: Indices, larger: float = 1.0) -> Times:
    """The ratio of each chosen task's time in bfloat16 to that in float32; NaN if no such product was tried.

    The batch is ``larger`` times the tried one, and its gain differs.
    """
    tried = tried_products(subject, graph, heavy)
    found = np.array([np.nan if one is None else one[1].narrowing for one in tried], np.float64)
    return _of_larger(graph, heavy, found, larger)


def iteration_factors(subject: Subject, graph: Graph, target: str, larger: float = 1.0) -> Times:
    """The ratio of each task's time in iterations with autocast to that without, including casts.

    NaN if no iterations were tried, and for tasks that a change has put in the place of others.
    """
    found = np.full(len(graph), np.nan)
    if (tried := subject.tried) is None:
        return found
    chosen = select(graph, phase=(Phase.FORWARD, Phase.BACKWARD), kind=TaskKind.CPU)
    factors = tried.factors(graph, chosen, tried.standing, (tried.threads, target), larger)
    found[chosen] = _of_larger(graph, chosen, factors, tried.beyond(larger))
    return found


def python_factors(subject: Subject, graph: Graph, target: str) -> Times:
    """The ratio of Python time after each task with autocast to that without; 1 if no iterations were tried."""
    if (tried := subject.tried) is None:
        return np.ones(len(graph))
    return tried.python_factors(graph, tried.standing, (tried.threads, target))


def _of_larger(graph: Graph, tasks: Indices, factors: Times, larger: float) -> Times:
    grown = min(_MOST_LARGER, max(1 / _MOST_LARGER, larger))
    standing = np.zeros(len(tasks))
    works = graph.tasks.work[tasks]
    # Forward operators also run in the backward pass if they are recomputed.
    nodes = graph.tasks.named(lambda name: "Backward" in name)[tasks]
    weighted = ~graph.tasks.named(of_activations)[tasks]
    for (kind, is_node), share in _STANDING.items():
        standing[(works == WORK[kind]) & (nodes == is_node) & weighted] = share
    return np.where(factors < 1, factors * (1 - standing + standing / grown), factors)
