"""SKY203: every iteration creates the same tensor again."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import spared_ms, step_ms
from skyline.findings.lines import dearest_lines
from skyline.graph.graph import scale
from skyline.graph.launching import launched_by
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain
from skyline.whatif.subject import Subject

_SHARE = 0.01
_LINES = 4
_MAKERS = re.compile(
    r"^aten::(arange|linspace|logspace|eye|ones|full|tril_indices|triu_indices"
    r"|(bartlett|blackman|hamming|hann|kaiser)_window)$"
)
"""Operators that create a tensor from plain numbers. ``zeros`` and ``empty`` are excluded: they are often filled."""
_DERIVING = re.compile(
    r"^aten::(tril|triu|to|_to_copy|bool|float|half|bfloat16|int|long|logical_not|bitwise_not|neg|sin|cos|exp|log"
    r"|sqrt|reciprocal|unsqueeze|squeeze|view|reshape|expand|repeat|transpose|permute|t|contiguous|flip|cumsum"
    r"|mul|div|add|sub|pow|rsub|eq|ne|lt|gt|le|ge|masked_fill_?|slice|select)$"
)
"""Operators that create a tensor from one tensor and plain numbers."""
_PHASES = (Phase.FORWARD, Phase.OTHER)


@dataclass(frozen=True, slots=True)
class RemadeConstants:
    """Creating identical tensors from plain numbers takes more than a hundredth of every iteration."""

    code: str = "SKY203"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the slowest such line; the cost is the saving without all of them."""
        trace = subject.script.trace
        rows = sorted(_remade(trace))
        spent_us = sum(trace.records[row].duration_us for row in rows)
        whole_us = sum(mark.end_us - mark.start_us for mark in trace.iterations)
        # Host time without the Python between the calls: a low value needs no simulation.
        if spent_us <= 0.3 * _SHARE * whole_us:
            return None
        graph = subject.graph_of(Grain.OPERATORS)
        chosen = np.flatnonzero(np.isin(graph.tasks.origin, rows)).astype(np.int64)
        work = np.union1d(chosen, launched_by(graph, chosen)).astype(np.int64)
        cost_ms = spared_ms(subject, graph, scale(graph, work, 0.0, gaps=True))
        total_ms = step_ms(subject)
        if cost_ms <= _SHARE * total_ms:
            return None
        lines = dearest_lines(graph, work, (graph.durations + graph.gaps)[work])
        names = ", ".join(sorted({trace.records[row].name.removeprefix("aten::") for row in rows}))
        return Finding.at(
            self.code,
            f"{cost_ms / total_ms:.1%} of the iteration creates the same tensors again ({names})",
            lines[0][0] if lines else None,
            cost_ms,
            None,
            tuple(
                Evidence.at(f"{cost_us / 1e3 / subject.steps:.2g} ms of an iteration", line)
                for line, cost_us in lines[:_LINES]
            ),
        )


def _remade(trace: Trace) -> set[int]:
    """The records that create such tensors, or derive others from them, identically in all recorded iterations.

    One iteration alone is not conclusive, nor are lines whose operators differ between iterations.
    """
    iterations = {mark.index for mark in trace.iterations}
    if len(iterations) < 2:
        return set()
    found: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    made: dict[int, dict[int, list[tuple[str, int]]]] = defaultdict(lambda: defaultdict(list))
    for chain in _chains(trace):
        first = trace.records[chain[0]]
        found[first.line][first.iteration] += chain
        made[first.line][first.iteration] += [
            (trace.records[row].name, trace.records[row].shape) for row in chain
        ]
    rows: set[int] = set()
    for line, by_iteration in found.items():
        alike = list(made[line].values())
        if by_iteration.keys() == iterations and all(one == alike[0] for one in alike):
            rows.update(row for chain in by_iteration.values() for row in chain)
    return rows


def _chains(trace: Trace) -> Iterator[list[int]]:
    """Each creating record with the records of its line that derive from it directly."""
    chain: list[int] = []
    for row, record in enumerate(trace.records):
        if record.kind in (RecordKind.PYTHON, RecordKind.KERNEL, RecordKind.COPY, RecordKind.RUNTIME):
            continue
        if record.kind is not RecordKind.OPERATOR or record.phase not in _PHASES or record.line < 0:
            pass
        elif _MAKERS.match(record.name):
            if chain:
                yield chain
            chain = [row]
            continue
        elif chain and _derives(record, trace.records[chain[-1]], trace.shapes):
            chain.append(row)
            continue
        if chain:
            yield chain
            chain = []
    if chain:
        yield chain


def _derives(record: Record, before: Record, shapes: Sequence[object]) -> bool:
    """True if an operator uses the result of the previous operator on its line and no other tensor."""
    if not _DERIVING.match(record.name) or record.line != before.line or record.lane != before.lane:
        return False
    shape = shapes[record.shape] if 0 <= record.shape < len(shapes) else None
    return shape is not None and len(getattr(shape, "inputs", ())) == 1


RULE = RemadeConstants()
