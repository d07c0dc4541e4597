"""The reduced trace of one rank, small enough to compare hundreds of ranks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from skyline.graph.column import Indices, Times
from skyline.graph.rules.names import names_of
from skyline.graph.spans import Spans, merged
from skyline.graph.task import WorkClass, work_class
from skyline.job.exchanges import Exchanges, exchanges
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.category import GPU_WORK, Category
from skyline.trace.kineto.profiler_trace import ProfilerTrace

_EXCHANGE_OPERATORS = ("c10d::", "record_param_comms")
_PRODUCTS = (WorkClass.MATMUL, WorkClass.CONVOLUTION)
_RANK_IN_NAME = re.compile(r"(?:rank|worker)[-_ .]?(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class WidthTime:
    """The time of kernels in µs, by its dependence on the width of the model's layers."""

    squared_us: float = 0.0
    """Matrix products and convolutions, whose inputs and outputs both get narrower."""
    linear_us: float = 0.0
    """Other computation."""

    @property
    def total_us(self) -> float:
        """The sum of both."""
        return self.squared_us + self.linear_us

    def scaled(self, factor: float) -> WidthTime:
        """Both times multiplied."""
        return WidthTime(self.squared_us * factor, self.linear_us * factor)


@dataclass(frozen=True, slots=True, eq=False)
class RankWork:
    """One rank, in µs on its trace's own clock."""

    file: str
    rank: int
    """-1 if neither the trace nor the file's name says."""
    world_size: int
    """0 if the trace does not say."""
    base_ns: int
    """The time of the trace's zero by the clock of the rank's machine."""
    step_number: Indices
    step_begin_us: Times
    step_end_us: Times
    """The ends of the steps that the script marked; the whole recording is one step if it marked none."""
    marked: bool
    """True if the script marked steps."""
    exchanges: Exchanges
    compute_us: float
    """The time within the steps in which the GPU computed or copied; without a GPU, in which operators ran."""
    computing: Spans
    """The part of that work that overlaps with collectives."""
    on_gpu: bool
    device: str
    notes: tuple[str, ...]
    by_width: WidthTime = WidthTime()
    """Kernels within the steps, without collectives and copies; nothing without a GPU."""

    @property
    def begin_us(self) -> float:
        """The beginning of the first step."""
        return float(self.step_begin_us[0])

    @property
    def end_us(self) -> float:
        """The end of the last step."""
        return float(self.step_end_us[-1])


def rank_work(trace: ProfilerTrace, file: str) -> RankWork:
    """The part of a trace that is kept."""
    found = exchanges(trace)
    work, on_gpu = _computing(trace)
    marked = len(trace.steps) > 0
    begin = trace.steps.start_us if marked else np.zeros(1)
    end = trace.steps.end_us if marked else np.array([trace.duration_total_us])
    return RankWork(
        file=file,
        rank=trace.rank if trace.rank >= 0 else _rank_named(file),
        world_size=trace.world_size,
        base_ns=trace.base_ns,
        step_number=trace.steps.number if marked else np.zeros(1, np.int64),
        step_begin_us=begin,
        step_end_us=end,
        marked=marked,
        exchanges=found,
        compute_us=work.cut(float(begin[0]), float(end[-1])).total_us,
        computing=work.shared(merged(found.start_us, found.end_us)),
        on_gpu=on_gpu,
        device=trace.devices[0].name if trace.devices else "",
        notes=tuple(map(str, trace.notes)),
        by_width=_by_width(trace, float(begin[0]), float(end[-1])),
    )


def _computing(trace: ProfilerTrace) -> tuple[Spans, bool]:
    rows = trace.of(*GPU_WORK)
    on_gpu = len(rows) > 0
    if on_gpu:
        rows = rows[~names_of(trace).collective[rows]]
    else:
        exchanging = np.fromiter(
            (name.startswith(_EXCHANGE_OPERATORS) for name in trace.strings), np.bool_, len(trace.strings)
        )
        rows = trace.of(Category.CPU_OP)
        rows = rows[~exchanging[trace.name[rows]]]
    return merged(trace.start_us[rows], trace.end_us[rows]), on_gpu


def _by_width(trace: ProfilerTrace, begin_us: float, end_us: float) -> WidthTime:
    rows = trace.of(Category.KERNEL)
    rows = rows[~names_of(trace).collective[rows]]
    names, of_row = np.unique(trace.name[rows], return_inverse=True)
    product = np.array([work_class(trace.strings[int(name)]) in _PRODUCTS for name in names], np.bool_)
    inside_us = np.clip(trace.end_us[rows], begin_us, end_us) - np.clip(
        trace.start_us[rows], begin_us, end_us
    )
    squared_us = float(inside_us[product[of_row]].sum())
    return WidthTime(squared_us, float(inside_us.sum()) - squared_us)


def _rank_named(file: str) -> int:
    found = _RANK_IN_NAME.search(Path(file).name)
    return int(found[1]) if found else -1
