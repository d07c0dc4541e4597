"""Details of a line: its bottleneck, its operators and its share on the critical path."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

import numpy as np

from skyline.analysis.analyse import Analysis
from skyline.analysis.line_parts import Place, place_of
from skyline.errors import SkylineError
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpus import gpu_named
from skyline.simulate.critical_path import critical_chain
from skyline.trace.record import Record, RecordKind, Trace

PYTHON, DATA, HOST = "Python and dispatch", "data loading", "the host: the GPU waits for launches"
ARITHMETIC, MEMORY = "arithmetic", "memory bandwidth"
_MOST_OPERATORS = 2
_OUTSIDE = {RecordKind.PYTHON, RecordKind.DATA}


@dataclass(frozen=True, slots=True)
class LineDetail:
    """Details of a line in addition to its cost.

    ``operators`` are its most expensive ones with their input shapes. ``kernels`` is the number of GPU kernels and
    copies per iteration. ``critical_share`` is the share of its work on the critical path. ``bound`` names its
    bottleneck. It is empty if unknown: without the peaks of the device, arithmetic and memory cannot be
    distinguished.
    """

    operators: tuple[str, ...] = ()
    kernels: float = 0.0
    critical_share: float = 1.0
    bound: str = ""


@dataclass(slots=True)
class _DetailTally:
    by_kind: Counter[RecordKind] = field(default_factory=Counter)
    shapes: Counter[int] = field(default_factory=Counter)
    kernels: int = 0
    flops: int = 0
    bytes_moved: int = 0
    work_us: float = 0.0
    critical_us: float = 0.0

    def add(self, record: Record, trace: Trace, *, traced: bool) -> None:
        """Add a record. ``traced``: count the work of kernels too. Otherwise their operators already have it."""
        self.by_kind[record.kind] += record.duration_us  # type: ignore[assignment]
        on_device = record.kind in (RecordKind.KERNEL, RecordKind.COPY)
        self.kernels += on_device
        if 0 <= record.shape < len(trace.shapes) and (traced or not on_device):
            self.shapes[record.shape] += record.duration_us  # type: ignore[assignment]
            self.flops += trace.shapes[record.shape].flops
            self.bytes_moved += trace.shapes[record.shape].bytes_moved


def line_details(analysis: Analysis) -> dict[Place, LineDetail]:
    """The details of every line that has records, by the roofline model of Williams, Waterman and Patterson (2009).

    Work with more operations per byte than the device's peak divided by its bandwidth is bound by arithmetic.
    """
    trace = analysis.profile.trace
    tallies: dict[Place, _DetailTally] = {}
    places: dict[int, _DetailTally] = {}

    def tally_of(line: int) -> _DetailTally:
        tally = places.get(line)
        if tally is None:
            tally = places[line] = tallies.setdefault(place_of(trace, line), _DetailTally())
        return tally

    for record in trace.records:
        tally_of(record.line if record.line >= 0 else record.call_line).add(
            record, trace, traced=analysis.profile.prediction is not None
        )
    tasks, timeline = analysis.timeline.graph.tasks, analysis.timeline
    spent = timeline.freed - timeline.starts
    lines = np.where(tasks.line >= 0, tasks.line, tasks.call_line)
    critical = np.zeros(len(spent), bool)
    critical[critical_chain(timeline)] = True
    for line in np.unique(lines).tolist():
        own = lines == line
        tally = tally_of(line)
        tally.work_us += float(spent[own].sum())
        tally.critical_us += float(spent[own & critical].sum())
    steps = max(1, len(trace.iterations))
    ridge = _flops_per_byte(analysis)
    return {
        place: LineDetail(
            operators=tuple(_called(trace, shape) for shape, _ in tally.shapes.most_common(_MOST_OPERATORS)),
            kernels=tally.kernels / steps,
            critical_share=tally.critical_us / tally.work_us if tally.work_us > 0 else 1.0,
            bound=_bound(tally, ridge),
        )
        for place, tally in tallies.items()
        if place[1]
    }


def _called(trace: Trace, index: int) -> str:
    shape = trace.shapes[index]
    sizes = ", ".join("×".join(map(str, one)) for one in shape.inputs if one)
    return f"{shape.operator.removeprefix('aten::')}({sizes})"


def _bound(tally: _DetailTally, ridge: float | None) -> str:
    kinds = tally.by_kind
    on_gpu = kinds[RecordKind.KERNEL] + kinds[RecordKind.COPY]
    outside = sum(kinds[kind] for kind in _OUTSIDE)
    on_host = kinds[RecordKind.OPERATOR] + outside
    if kinds[RecordKind.DATA] > (on_host + on_gpu) / 2:
        return DATA
    if on_gpu:
        if on_host > on_gpu:
            return HOST
    elif outside > kinds[RecordKind.OPERATOR]:
        return PYTHON
    if ridge is None or not tally.bytes_moved:
        return ""
    return ARITHMETIC if tally.flops / tally.bytes_moved > ridge else MEMORY


def _flops_per_byte(analysis: Analysis) -> float | None:
    """Ridge point of a GPU in the device table, in operations per byte: peak rate over bandwidth. None if unknown."""
    device = analysis.profile.environment.device
    if device.kind == "cpu":
        return None
    try:
        spec = gpu_named(device.name)
    except SkylineError:
        return None
    return spec.tflops_fp32 * 1e12 / (spec.bandwidth_gb_s * 1e9)
