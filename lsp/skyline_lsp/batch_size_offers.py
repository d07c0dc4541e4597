"""The other batch sizes offered at the batch size in the code: double, half, and the largest that fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from skyline import units
from skyline.memory.fit import Fit, fit
from skyline.report import basis
from skyline.whatif.estimate import Estimate
from skyline.whatif.question import Question
from skyline_lsp.curve_table import largest_that_fits, point_of
from skyline_lsp.state import ScriptState


@dataclass(frozen=True, slots=True)
class BatchSizeOffer:
    """Another size with its estimate. ``refused`` is the reason it cannot be chosen, empty if it can."""

    size: int
    title: str
    answer: Estimate
    refused: str = ""


def batch_size_offers(state: ScriptState, current: int) -> Iterator[BatchSizeOffer]:
    """The sizes to offer for the current one. Empty if other sizes cannot be estimated."""
    prepared = state.prepared
    if prepared is None:
        return
    sizes: dict[int, str] = {2 * current: "double the batch size to {size}"}
    if current > 1:
        sizes[current // 2] = "halve the batch size to {size}"
    largest = largest_that_fits(prepared.analysis)
    if largest is not None and largest != current:
        step = sizes.pop(largest, "batch size {size}")
        sizes[largest] = f"{step}, the largest of the curve that fits into memory"
    usable = prepared.report.memory.usable_bytes
    for size, words in sizes.items():
        answer = state.estimate(Question(batch_size=size))
        verdict = fit(answer.peak, usable)
        title, refused = words.format(size=size), ""
        if verdict is Fit.TOO_LARGE and usable:
            needed, there = units.format_bytes(answer.peak.value), units.format_bytes(usable)
            refused = (
                f"Batch size {size} does not fit into memory: it needs {needed}, and {there} are available."
            )
        elif not answer.applicable:
            # There is no curve: the report and the list of what-ifs show the reason.
            continue
        elif verdict is Fit.UNSURE:
            title += ", which may not fit into memory"
        yield BatchSizeOffer(size, title, answer, refused)


def throughput_words(state: ScriptState, answer: Estimate) -> str:
    """Throughput with its basis: ``predicted 57,538 samples/s ±2,000``. Empty if samples cannot be counted."""
    prepared = state.prepared
    size = answer.batch_size
    if prepared is None or size is None or answer.throughput is None:
        return ""
    on_curve = (point for point in prepared.report.curve if point.batch_size == size)
    point = next(on_curve, None) or point_of(answer, size)
    known = basis.point_basis(point, predicted=True) if point is not None else "predicted"
    return f"{known} {units.format_throughput_interval(answer.throughput)}"
