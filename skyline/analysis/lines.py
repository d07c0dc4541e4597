"""Cost of each source line per iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from skyline.analysis.line_cost import LineCost
from skyline.analysis.line_parts import LinePart, Place, line_parts
from skyline.graph.task import Task
from skyline.interval import median
from skyline.memory.peak import activation_bytes, bytes_at_peak
from skyline.trace.record import CodeLine, Phase, RecordKind
from skyline.whatif.subject import Subject


@dataclass(slots=True)
class _LineTally:
    times: dict[Phase, Counter[int]] = field(default_factory=dict[Phase, "Counter[int]"])
    """Time in µs by phase and recorded iteration."""
    modules: Counter[int] = field(default_factory=Counter[int])
    functions: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    activations: int = 0
    flops: int = 0
    at_peak: int = 0
    gpu_us: float = 0.0

    def add(self, task: Task, time_us: float) -> None:
        times = self.times.get(task.phase)
        if times is None:
            times = self.times[task.phase] = Counter()
        times[task.iteration] += time_us  # type: ignore[assignment]

    @property
    def iterations(self) -> int:
        """The number of iterations in which the line ran."""
        return len({iteration for samples in self.times.values() for iteration in samples})

    def ms(self, factors: dict[Phase, float]) -> dict[Phase, float]:
        """The cost of the line per phase, in ms."""
        return {phase: self.typical_us(phase) * factors.get(phase, 0.0) for phase in Phase}

    def typical_us(self, phase: Phase) -> float:
        """Time over all iterations, from the median of those in which the line ran.

        A short delay of the machine hits one line in one iteration; a mean would attribute it to that line.
        """
        samples = self.times.get(phase)
        return median(list(samples.values())) * len(samples) if samples else 0.0


@dataclass(slots=True)
class _Book:
    """The tallies by place, cached by the index of a line, because a recording may need them a million times."""

    lines: tuple[CodeLine, ...]
    by_place: dict[Place, _LineTally] = field(default_factory=dict[Place, _LineTally])
    by_index: dict[int, _LineTally] = field(default_factory=dict[int, _LineTally])
    asked: Counter[int] = field(default_factory=Counter[int])

    def of(self, index: int) -> _LineTally:
        """The tally of a line of the trace; any other index is unattributed."""
        self.asked[index] += 1
        tally = self.by_index.get(index)
        if tally is None:
            known = 0 <= index < len(self.lines)
            place = (self.lines[index].file, self.lines[index].line) if known else ("", 0)
            tally = self.by_index[index] = self.by_place.setdefault(place, _LineTally())
        return tally

    def name_functions(self) -> None:
        """Record how often each function occurred at its line."""
        for index, tally in self.by_index.items():
            if 0 <= index < len(self.lines) and self.lines[index].function:
                tally.functions[self.lines[index].function] += self.asked[index]


def line_costs(baseline: Subject) -> tuple[LineCost, ...]:
    """The lines, highest cost first, and finally the unattributed time; together they are the iteration time.

    Work without a line of its own counts for the executing line of the training loop (``loss.backward()``). Per phase
    the lines sum to ``Baseline.phases``.
    """
    trace = baseline.script.trace
    book = _Book(trace.lines)
    tallies = book.by_place
    opening, previous = None, None
    for task, time_us in zip(baseline.graph.tasks, baseline.billed_us, strict=True):
        if task.lane != baseline.lane and not time_us:
            continue
        billed = task.line if task.line >= 0 else task.call_line
        tally = book.of(billed)
        tally.add(task, time_us)
        if task.module >= 0:
            tally.modules[task.module] += time_us  # type: ignore[assignment]
        if task.lane == baseline.lane:
            tally.calls += _is_arrival(task, billed, previous)
            opening = billed if previous is None else opening
            previous = billed
    if opening is not None and opening == previous and (tally := book.of(opening)).calls > 1:
        # Iterations are cut inside a call of the optimizer: its end at the very start does not count as a
        # call.
        tally.calls -= 1
    for record in trace.records:
        tally = book.of(record.line if record.line >= 0 else record.call_line)
        tally.flops += record.flops
        if record.kind in (RecordKind.KERNEL, RecordKind.COPY):
            tally.gpu_us += record.duration_us
    for line, size in activation_bytes(trace).items():
        book.of(line).activations += size
    for line, size in bytes_at_peak(baseline.script.memory, trace.allocations).items():
        book.of(line).at_peak += size
    book.name_functions()
    texts = {source.path: source.text.splitlines() for source in baseline.script.sources}
    factors = _factors(baseline, tallies)
    costs = {place: tally.ms(factors) for place, tally in tallies.items()}
    parts = line_parts(trace, baseline.lane, costs)
    rows = [
        _row(place, tally, costs[place], baseline, texts, parts.get(place, ()))
        for place, tally in tallies.items()
        if place != ("", 0)
    ]
    nobody = costs.get(("", 0), dict.fromkeys(Phase, 0.0))
    for phase in Phase:
        # A phase with time but without tasks is unattributed.
        if phase not in factors:
            nobody[phase] += baseline.phases[phase]
    rest = _row(("", 0), tallies.get(("", 0), _LineTally()), nobody, baseline, texts, parts.get(("", 0), ()))
    return (*sorted(rows, key=lambda row: (-row.self_ms, row.file, row.line)), rest)


def _is_arrival(task: Task, line: int, previous: int | None) -> bool:
    return line != previous and task.phase is not Phase.BACKWARD


def _factors(baseline: Subject, tallies: dict[Place, _LineTally]) -> dict[Phase, float]:
    """Milliseconds of the iteration per tallied µs, by phase."""
    totals: Counter[Phase] = Counter()
    for tally in tallies.values():
        totals.update({phase: tally.typical_us(phase) for phase in tally.times})  # type: ignore[arg-type]
    return {phase: baseline.phases[phase] / total for phase, total in totals.items() if total > 0}


def _row(
    place: Place,
    tally: _LineTally,
    ms: dict[Phase, float],
    baseline: Subject,
    texts: dict[str, list[str]],
    parts: tuple[LinePart, ...],
) -> LineCost:
    file, line = place
    iterations = max(1, len(baseline.graph.iterations))
    total = sum(ms.values())
    module = max(tally.modules, key=lambda index: tally.modules[index], default=-1)
    text = texts.get(file, [])
    return LineCost(
        file=file,
        line=line,
        function=max(tally.functions, key=lambda name: tally.functions[name], default=""),
        module=baseline.script.trace.modules[module] if module >= 0 else "",
        source=text[line - 1].strip() if 0 < line <= len(text) else "",
        calls=tally.calls / iterations,
        data_ms=ms[Phase.DATA],
        forward_ms=ms[Phase.FORWARD],
        backward_ms=ms[Phase.BACKWARD],
        optimizer_ms=ms[Phase.OPTIMIZER],
        other_ms=ms[Phase.COMMUNICATION] + ms[Phase.OTHER],
        self_ms=total,
        share=total / baseline.iteration_ms.value if baseline.iteration_ms.value else 0.0,
        activation_bytes=tally.activations,
        flops=round(tally.flops / iterations),
        peak_bytes=tally.at_peak,
        gpu_ms=tally.gpu_us / iterations / 1e3,
        frequency=tally.iterations / iterations if tally.times else 1.0,
        parts=parts,
    )
