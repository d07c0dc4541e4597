"""Parts of a line's time: modules, library functions, operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from skyline.lazy_dataclass import dataclass
from skyline.trace.record import Phase, Record, Trace

Place = tuple[str, int]
"""File and number of a line."""

SHOWN = 8
"""Number of parts kept per line. The remaining time is in none of them."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A part of a line's time per iteration.

    ``module`` is the path within the model, or the optimizer's parameter group. ``callee`` is the library function that
    the line called or, for the module's own call, the operator. Either may be empty.
    """

    module: str
    callee: str
    self_ms: float
    calls: float


def line_parts(
    trace: Trace, lane: str, line_ms: Mapping[Place, Mapping[Phase, float]]
) -> dict[Place, tuple[LinePart, ...]]:
    """The largest parts of each line, largest first, by file and number.

    ``line_ms`` is the cost of each line per phase. The records of a line and phase divide it in proportion to their
    times.
    """
    times: dict[tuple[Place, Phase], Counter[tuple[str, str]]] = {}
    calls: dict[Place, Counter[tuple[str, str]]] = {}
    places: dict[int, Place] = {}
    for record in trace.records:
        if record.lane != lane:
            continue
        index = record.line if record.line >= 0 else record.call_line
        line = places.get(index)
        if line is None:
            line = places[index] = place_of(trace, index)
        part = _part_of(record, trace)
        spent = times.get((line, record.phase))
        if spent is None:
            spent = times[line, record.phase] = Counter()
        spent[part] += record.duration_us  # type: ignore[assignment]
        if record.shape >= 0:
            called = calls.get(line)
            if called is None:
                called = calls[line] = Counter()
            called[part] += 1
    shares: dict[Place, Counter[tuple[str, str]]] = {}
    for (line, phase), parts in times.items():
        ms, total = line_ms.get(line, {}).get(phase, 0.0), sum(parts.values())
        for part, time_us in parts.items():
            if total > 0 and ms > 0:
                shares.setdefault(line, Counter())[part] += time_us / total * ms  # type: ignore[assignment]
    iterations = max(1, len(trace.iterations))
    return {
        line: tuple(
            LinePart(module, callee, ms, calls.get(line, Counter())[module, callee] / iterations)
            for (module, callee), ms in parts.most_common(SHOWN)
        )
        for line, parts in shares.items()
    }


def place_of(trace: Trace, line: int) -> Place:
    """File and number of a line of the trace; empty and 0 for none."""
    if not 0 <= line < len(trace.lines):
        return ("", 0)
    return trace.lines[line].file, trace.lines[line].line


def _part_of(record: Record, trace: Trace) -> tuple[str, str]:
    module = trace.modules[record.module] if 0 <= record.module < len(trace.modules) else ""
    if 0 <= record.function < len(trace.functions):
        return module, trace.functions[record.function]
    return module, record.name
