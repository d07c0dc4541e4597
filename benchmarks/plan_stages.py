"""Stages of a pipeline, cut by the slowest stage and by memory, compared with equal numbers of blocks.

    python benchmarks/plan_stages.py

Described transformers are planned on clusters. Only the time of both placement programs is measured, on random graphs
of layers. The integer program needs SciPy (extra ``solver``).
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from math import inf
from statistics import mean
from time import perf_counter

from machine import Machine
from result_file import table, write

from skyline.plan.cluster import cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.pipeline_cut import cut
from skyline.plan.placement import GraphLayer, LayerGraph, Placement, StageLimits, ideals, place
from skyline.plan.placement_program import place_by_program
from skyline.plan.rank_memory import largest_rank
from skyline.plan.search import USABLE
from skyline.plan.step import step_time
from skyline.plan.strategy import Recompute, Sharding, Strategy
from skyline.plan.transformer import transformer_named
from skyline.plan.work import work_of
from skyline.predict.registry import predictor_for

# Model, cluster, data, tensor and pipeline parallelism, micro-batch: 8 to 64 GPUs, four micro-batches per stage.
LAYOUTS = (
    ("gpt2", "dgx-a100", 2, 1, 4, 8),
    ("llama3-8b", "dgx-a100", 1, 2, 4, 1),
    ("llama3-8b", "dgx-a100", 1, 1, 8, 1),
    ("llama3-8b", "dgx-h100", 4, 1, 2, 1),
    ("mpt-30b", "dgx-a100", 2, 8, 4, 1),
    ("llama3-70b", "dgx-h100", 1, 8, 8, 1),
    ("llama3-70b", "dgx-h100", 1, 4, 16, 1),
)
GRAPHS, SEED = 40, 7


@dataclass(frozen=True, slots=True)
class Row:
    """One layout: tokens per second with even and with cut stages, memory in GB. 0 tokens if no layout fits."""

    layout: str
    recompute: str
    even_tokens_per_s: float
    even_gb: float
    cut_tokens_per_s: float
    cut_gb: float
    cut: str


@dataclass(frozen=True, slots=True)
class Solved:
    """Random graphs of one size: placements found by both programs, and their mean times in ms."""

    layers: int
    stages: int
    graphs: int
    ideals: float
    agree: int | None
    along_order: float
    ideals_ms: float
    program_ms: float | None


def rows() -> list[Row]:
    """Rows of even stages, without recomputation or with full recomputation, compared with cut stages."""
    found: list[Row] = []
    for name, cluster_name, data, tensor, pipeline, micro_batch in LAYOUTS:
        model = transformer_named(name)
        cluster = cluster_named(cluster_name).with_gpus(data * tensor * pipeline)
        kernels = KernelTimes(cluster.gpu, predictor_for(cluster.gpu))
        room = USABLE * cluster.gpu.memory_bytes
        base = Strategy(
            data=data, tensor=tensor, pipeline=pipeline, micro_batch=micro_batch, accumulation=4 * pipeline,
            sharding=Sharding.ZERO_1 if data > 1 else Sharding.NONE,
        )  # fmt: skip
        layers = model.layers(base)
        work = work_of(layers, kernels, base.precision)
        for recompute in (Recompute.NONE, Recompute.FULL):
            one = replace(base, recompute=recompute)
            even = replace(one, stage_blocks=_evenly(model.block_count, pipeline))
            made = cut(work, one, cluster, room)
            speeds, sizes = [], []
            for strategy in (even, made):
                sizes.append(largest_rank(layers, strategy).peak_bytes)
                step = step_time(work, strategy, cluster).total_us
                rate = strategy.samples_per_step * model.units_per_sample / step * 1e6
                speeds.append(rate if sizes[-1] <= room else 0.0)
            words = " ".join(map(str, made.stage_blocks))
            if made.stage_recomputed:
                words += f", recompute {' '.join(map(str, made.stage_recomputed))}"
            label = f"{name} on {cluster.gpus} of {cluster_name}, tp {tensor} x pp {pipeline}"
            found.append(
                Row(label, recompute.value, speeds[0], sizes[0] / 1e9, speeds[1], sizes[1] / 1e9, words)
            )
    return found


def _evenly(blocks: int, stages: int) -> tuple[int, ...]:
    each, rest = divmod(blocks, stages)
    return tuple(each + (stage < rest) for stage in range(stages))


def solved() -> list[Solved]:
    """Results of both programs on random graphs: branches of layers between a first and a last layer."""
    found: list[Solved] = []
    for layers, stages in ((8, 3), (12, 4), (16, 4)):
        draw = random.Random(SEED)
        graphs = [_graph(draw, layers) for _ in range(GRAPHS)]
        limits = StageLimits(1e9, tuple(float(stages - one) for one in range(stages)))
        best, ideals_ms = _timed(graphs, limits, place)
        order, _ = _timed([LayerGraph.chain(graph.layers) for graph in graphs], limits, place)
        program: list[float] | None = None
        program_ms: float | None = None
        if find_spec("scipy"):
            program, program_ms = _timed(graphs, limits, place_by_program)
        found.append(
            Solved(
                layers,
                stages,
                len(graphs),
                mean(len(ideals(graph, 1 << layers) or ()) for graph in graphs),
                program and sum(abs(one / two - 1) < 1e-6 for one, two in zip(best, program, strict=True)),
                mean(one / two for one, two in zip(order, best, strict=True)),
                ideals_ms,
                program_ms,
            )
        )
    return found


def _graph(draw: random.Random, count: int) -> LayerGraph:
    layers = tuple(GraphLayer(float(draw.randint(1, 100)), 1.0, 1.0) for _ in range(count))
    edges = {(draw.randrange(max(0, layer - 3), layer), layer) for layer in range(1, count)}
    edges |= {(draw.randrange(max(0, layer - 3), layer), layer) for layer in range(1, count)}
    return LayerGraph(layers, tuple(sorted(edges)))


def _timed(
    graphs: Sequence[LayerGraph],
    limits: StageLimits,
    program: Callable[[LayerGraph, StageLimits], Placement | None],
) -> tuple[list[float], float]:
    """The times of the slowest stages (infinite if nothing fits), and the mean time of a program in ms."""
    start = perf_counter()
    found = [program(graph, limits) for graph in graphs]
    took_ms = (perf_counter() - start) * 1e3 / len(graphs)
    return [one.slowest_us if one else inf for one in found], took_ms


def main() -> int:
    """Plan each layout, solve the graphs, and write the page."""
    machine = Machine.here()
    planned, graphs = rows(), solved()
    head = (
        "layout",
        "recompute",
        "even, tokens/s",
        "GB",
        "cut, tokens/s",
        "GB",
        "gain",
        "blocks of the stages",
    )
    body = [
        (
            one.layout,
            one.recompute,
            _rate(one.even_tokens_per_s),
            f"{one.even_gb:.1f}",
            _rate(one.cut_tokens_per_s),
            f"{one.cut_gb:.1f}",
            _gain(one),
            one.cut,
        )
        for one in planned
    ]
    names = (
        "layers",
        "stages",
        "graphs",
        "ideals",
        "same optimum",
        "along the order",
        "ideals, ms",
        "HiGHS, ms",
    )
    sizes = [
        (
            str(one.layers),
            str(one.stages),
            str(one.graphs),
            f"{one.ideals:.0f}",
            "-" if one.agree is None else f"{one.agree} of {one.graphs}",
            f"{one.along_order:.3f}x",
            f"{one.ideals_ms:.1f}",
            "-" if one.program_ms is None else f"{one.program_ms:.1f}",
        )
        for one in graphs
    ]
    text = (
        "Described transformers with 1F1B and four micro-batches per stage in a step. *even*: each stage has "
        "the same number of blocks, and the first stages have one more if there is a remainder. All blocks "
        "recompute, or none. *cut*: the cut whose slowest stage is fastest, within 95 % of the memory and "
        "with the least recomputation for that. All figures are planned. No step was "
        f"measured.\n\n{table(head, body)}\n\nRandom graphs of layers, in which each layer needs one or two "
        "of the three layers before it. *along the order*: the slowest stage if stages are consecutive "
        "layers, over the slowest stage of the best placement. Times are of one core.\n\n"
        f"{table(names, sizes)}"
    )
    figures = {"layouts": [asdict(one) for one in planned], "graphs": [asdict(one) for one in graphs]}
    print(write("plan_stages", "Stages of a pipeline", machine, text, figures))
    return 0


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value else "does not fit"


def _gain(one: Row) -> str:
    if not one.even_tokens_per_s or not one.cut_tokens_per_s:
        return "-"
    return f"{one.cut_tokens_per_s / one.even_tokens_per_s:.2f}x"


if __name__ == "__main__":
    sys.exit(main())
