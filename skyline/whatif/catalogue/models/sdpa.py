"""What if hand-written attention ran as one fused operator."""

from __future__ import annotations

import numpy as np

from skyline.graph.graph import Graph, scale
from skyline.graph.launching import launches_of
from skyline.graph.task import WORK, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.attention import AttentionCall, Site, written_out
from skyline.whatif.constant import EXAMPLES, XEON, Constant
from skyline.whatif.cost.thread_scaling import PLAIN_PART, attention_part, gained, threads_of
from skyline.whatif.memory import Memory
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import NEEDS_PROFILE

_BACKWARD = Constant(
    2.5, 2.3, 2.7,
    "FlashAttention, section 3.1: five products in the backward pass, two in the forward pass; measured 2.3 to 2.7",
    machine=XEON,
)  # fmt: skip
_CPU_PRODUCTS = Constant.at(
    0.95, "time of the fused operator's products over that of the two plain ones", EXAMPLES, XEON
)
_CPU_CAUSAL_PRODUCTS = Constant.at(
    0.75, "the same where the operator leaves out blocks that a mask hides", EXAMPLES, XEON
)
_CPU_SOFTMAX = Constant.at(
    0.5, "time of its softmax over that of the plain one, which goes through memory", EXAMPLES, XEON
)
_CPU_HEAD_US = Constant.at(4.0, "µs to start the work on one head", EXAMPLES, XEON)
_CPU_RANGE = Constant(1.0, 0.75, 1.35, "an assumption of how far the model may be off on a CPU")
_GPU_RANGE = Constant(1.0, 0.5, 3.0, "an assumption: no pair of runs on a GPU was compared")
_GPU_SHARE = Constant.at(0.8, "an assumption: softmax runs between the fused products")
_LEAST_US = Constant.at(2.0, "an assumption: the start and end of a kernel")


@dataclass(frozen=True, slots=True)
class Sdpa(UsualWhatIf):
    """Removes all work on the matrices of pairs, and puts two fused operators in the place of the products."""

    name: str = "sdpa"
    words: str = "scaled_dot_product_attention in place of hand-written attention"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if product, softmax and product follow one another on matrices of all pairs."""
        if subject.profile is None:
            return Applicability.no(NEEDS_PROFILE)
        graph = subject.graph_of(self.grain)
        sites = written_out(subject, graph)
        if any(_has_kernel(subject, site) for site in sites):
            return Applicability(True)
        if sites:
            return Applicability.no(
                "its attention uses dropout: PyTorch has no fused operator with dropout on a CPU, and would "
                "run the same steps"
            )
        if any("scaled_dot_product" in name or "ScaledDotProduct" in name for name in graph.tasks.names):
            return Applicability.no("its attention is a fused operator already")
        return Applicability.no("no hand-written attention was recorded")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the products to the fused time, and all other work between them to zero."""
        every = written_out(subject, scenario.graph)
        sites = tuple(site for site in every if _has_kernel(subject, site))
        if not sites:
            return scenario
        spread = _GPU_RANGE if subject.on_gpu else _CPU_RANGE
        larger = scenario.pass_factor(subject)
        graph = scenario.graph if subject.on_gpu else _told(scenario.graph, sites)
        cases = (fused(subject, graph, sites, factor, larger) for factor in spread.ends)
        return scenario.between(
            subject,
            *cases,
            assumptions=_assumptions(sites),
            memory=lambda memory: _without_pairs(memory, sites, subject.steps),
        )


def _has_kernel(subject: Subject, site: Site) -> bool:
    """True if a fused kernel exists: on a CPU, the fused operator with dropout runs the same separate steps."""
    return subject.on_gpu or not any(call.pairs.dropped for call in site.calls)


def fused(subject: Subject, graph: Graph, sites: tuple[Site, ...], factor: float, larger: float) -> Graph:
    """The graph with fused attention, whose modelled time is multiplied by ``factor``, in a ``larger`` batch."""
    factors = np.ones(len(graph))
    for site in sites:
        forward_us = 0.0
        for call in site.calls:
            one_us = factor * _forward_us(subject, graph, call, larger)
            forward_us += one_us
            _give(graph, factors, (*call.products, call.softmax, *call.others), one_us, call.products[0])
        for call in site.repeated:
            again_us = factor * _forward_us(subject, graph, call, larger)
            _give(graph, factors, (*call.products, call.softmax, *call.others), again_us, call.products[0])
        if site.backward_products:
            members = (*site.backward_products, *site.backward_others)
            _give(graph, factors, members, _BACKWARD.value * forward_us, site.backward_products[0])
    gone = np.flatnonzero(factors == 0)
    changed = scale(graph, np.flatnonzero(factors != 1), factors[factors != 1])
    # The host no longer calls the removed work, so the time of these calls goes, too.
    calls = np.concatenate((launches_of(graph, gone), gone)) if subject.on_gpu else gone
    return scale(changed, calls, 0.0, gaps=True)


def _give(
    graph: Graph,
    factors: np.ndarray[tuple[int], np.dtype[np.float64]],
    members: tuple[int, ...],
    us: float,
    to: int,
) -> None:
    """Let the task ``to`` take ``us``, and the other members no time."""
    factors[list(members)] = 0.0
    factors[to] = us / graph.durations[to] if graph.durations[to] > 0 else 1.0


def _told(graph: Graph, sites: tuple[Site, ...]) -> Graph:
    """The graph with the rest of each site marked as attention, which number formats and threads affect differently."""
    work = graph.tasks.work.copy()
    for site in sites:
        work[[call.products[0] for call in (*site.calls, *site.repeated)]] = WORK[WorkClass.ATTENTION]
        work[list(site.backward_products[:1])] = WORK[WorkClass.ATTENTION]
    structure = graph.structure.with_parts(graph.tasks.changed(work=work))
    return Graph(structure, graph.durations, graph.gaps, graph.priorities)


def _forward_us(subject: Subject, graph: Graph, call: AttentionCall, larger: float) -> float:
    pairs = call.pairs
    products_us = float(graph.durations[list(call.products)].sum())
    if not subject.on_gpu:
        share = _CPU_CAUSAL_PRODUCTS.value if pairs.causal else _CPU_PRODUCTS.value
        plain_us = share * products_us + _CPU_SOFTMAX.value * float(graph.durations[call.softmax])
        threads = threads_of(subject)
        # Plain and fused operators gain differently from threads, so they are compared on one thread.
        alone_us = plain_us / gained(PLAIN_PART.value, threads) + _CPU_HEAD_US.value * pairs.heads * larger
        return alone_us * gained(attention_part(pairs.rows * pairs.width), threads)
    spec = gpu(subject)
    element = pairs.matrix_bytes / pairs.elements
    moved = 2 * pairs.heads * (pairs.rows + pairs.columns) * pairs.width * element
    traffic_us = 0.0 if spec is None else moved / (spec.bandwidth_gb_s * 1e3)
    return max(_LEAST_US.value, traffic_us, products_us * (0.5 if pairs.causal else 1.0) / _GPU_SHARE.value)


def _without_pairs(memory: Memory, sites: tuple[Site, ...], steps: int) -> Memory:
    """The memory without matrices kept for the backward pass; the peak may have two more while the last is computed."""
    calls = [call.pairs for site in sites for call in site.calls]
    kept = sum(pairs.kept_bytes for pairs in calls) / steps
    passing = 2 * max(pairs.matrix_bytes for pairs in calls)
    return memory.less("activations", Interval(kept, kept, kept + passing))


def _assumptions(sites: tuple[Site, ...]) -> tuple[str, ...]:
    sizes = {call.pairs for site in sites for call in site.calls}
    made = ["one fused operator reads queries, keys and values once and stores no attention matrix"]
    if any(pairs.causal for pairs in sizes):
        made.append("the mask is causal (is_causal=True)")
    return tuple(made)


WHATIF = Sdpa()
