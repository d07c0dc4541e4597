"""SKY309: products leave much of the GPU's tiles or waves empty."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import spared_ms, step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.selection import select
from skyline.graph.task import TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.predict.predicted_times import in_allowed_format
from skyline.predict.tile_shares import ProductUse, product_uses, tile_shares
from skyline.trace.record import PASSES
from skyline.units import format_ms, format_share
from skyline.whatif.base import Grain
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import Subject, shapes

_SHARE = 0.02
_USED = 0.6
"""Assumed limit of the share of the multiprocessors' time that results use, below which sizes deserve attention."""
_PRODUCTS_SHARE = 0.3
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
_LINES = 3


@dataclass(frozen=True, slots=True)
class PartialTiles:
    """Products take much of the iteration, and use less than three fifths of the multiprocessors' time for results."""

    code: str = "SKY309"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the line with the largest part; the cost is a bound, reached with full tiles and whole waves."""
        spec = gpu(subject)
        if spec is None or subject.profile is None:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = select(graph, kind=TaskKind.KERNEL, work=_PRODUCTS, phase=PASSES)
        known = [
            (task, in_allowed_format(shape, subject.script, spec))
            for task, shape in zip(chosen.tolist(), shapes(subject, graph, chosen), strict=True)
            if shape is not None and shape.flops
        ]
        durations = graph.durations
        used = product_uses([(float(durations[task]), shape) for task, shape in known], spec)
        shares = tile_shares(used)
        if shares is None or len(used) < len(known) or shares.filled * shares.busy >= _USED:
            return None
        tasks = np.array([task for task, _ in known], np.int64)
        took_ms = float(durations[tasks].sum()) / 1e3 / max(1, subject.steps)
        idle_us = _idle_us(used)
        cost_ms = spared_ms(subject, graph, _filled(graph, tasks, idle_us))
        if cost_ms <= _SHARE * step_ms(subject) or took_ms < _PRODUCTS_SHARE * step_ms(subject):
            return None
        lines = dearest_lines(graph, tasks, idle_us)
        return Finding.at(
            self.code,
            f"matrix products fill {format_share(shares.filled)} of their tiles, and their waves keep the "
            f"multiprocessors busy for {format_share(shares.busy)} of the time",
            lines[0][0] if lines else None,
            cost_ms,
            None,
            (
                Evidence(
                    f"upper bound: full tiles and whole waves in all {format_ms(took_ms)} of matrix products; "
                    f"the tiles are from a model of the libraries for {spec.name}"
                ),
                Evidence(
                    "remedy: sizes that are multiples of the tile size (64, 128); skyline sweep --vary shows the "
                    "steps; larger batches fill more waves"
                ),
                *(
                    Evidence.at(f"{format_ms(us / 1e3 / max(1, subject.steps))} of an iteration", line)
                    for line, us in lines[:_LINES]
                ),
            ),
        )


def _idle_us(used: Sequence[ProductUse]) -> Times:
    """The time of each product that full tiles and whole waves would save."""
    return np.array([one.weight * (1 - one.use.filled * one.use.busy) for one in used], np.float64)


def _filled(graph: Graph, tasks: Indices, idle_us: Times) -> Graph:
    durations = graph.durations.copy()
    durations[tasks] -= idle_us
    return graph.with_times(durations=durations)


RULE = PartialTiles()
