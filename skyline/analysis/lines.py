"""What each line of the person's source costs per iteration."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from skyline.graph.task import Task
from skyline.memory.activations import activation_bytes
from skyline.spread import median
from skyline.trace.phase import Phase
from skyline.trace.record import CodeLine
from skyline.whatif.baseline import Baseline


@dataclass(frozen=True, slots=True)
class LineCost:
    """The cost of one line of the person's source per iteration.

    ``self_ms`` is all the time billed to this line, the sum of its phases: library code folds into the user
    line that called it, and backward work into the line whose forward operator caused it. ``calls`` is how
    often forward execution comes to the line. ``file`` and ``line`` are empty and 0 in the one row that holds
    the unattributed rest.
    """

    file: str
    line: int
    function: str
    module: str
    source: str
    calls: float
    data_ms: float
    forward_ms: float
    backward_ms: float
    optimizer_ms: float
    other_ms: float
    self_ms: float
    share: float
    activation_bytes: int


@dataclass(slots=True)
class _Tally:
    times: dict[Phase, Counter[int]] = field(default_factory=dict[Phase, "Counter[int]"])
    """µs by phase and recorded iteration."""
    modules: Counter[int] = field(default_factory=Counter[int])
    functions: Counter[str] = field(default_factory=Counter[str])
    calls: int = 0
    activations: int = 0

    def add(self, task: Task, time_us: float) -> None:
        self.times.setdefault(task.phase, Counter())[task.iteration] += time_us  # type: ignore[assignment]

    def typical_us(self, phase: Phase) -> float:
        """Time over all iterations, by the median of those in which the line ran.

        A hiccup of the machine hits one line in one iteration; the mean would bill it to that line for good.
        """
        samples = self.times.get(phase)
        return median(list(samples.values())) * len(samples) if samples else 0.0


def line_costs(baseline: Baseline) -> tuple[LineCost, ...]:
    """The lines, dearest first, and last the unattributed rest; together they are the iteration time.

    Work without a line of its own is billed to the line of the training loop that was executing
    (``loss.backward()``). Per phase the lines sum to ``Baseline.phases``.
    """
    trace = baseline.profile.trace
    tallies: dict[tuple[str, int], _Tally] = {}
    previous = -1
    for task, duration, gap in zip(
        baseline.graph.tasks, baseline.graph.durations, baseline.graph.gaps, strict=True
    ):
        if task.lane != baseline.lane:
            continue
        billed = task.line if task.line >= 0 else task.call_line
        tally = _tally_of(tallies, trace.lines, billed)
        tally.add(task, duration + gap)
        if task.module >= 0:
            tally.modules[task.module] += duration + gap  # type: ignore[assignment]
        tally.calls += _is_arrival(task, billed, previous)
        previous = billed
    for line, size in activation_bytes(trace).items():
        _tally_of(tallies, trace.lines, line).activations += size
    texts = {source.path: source.text.splitlines() for source in baseline.profile.sources}
    factors = _factors(baseline, tallies)
    iterations = max(1, len(baseline.graph.iterations))
    rows = [
        _row(place, tally, factors, iterations, baseline, texts)
        for place, tally in tallies.items()
        if place != ("", 0)
    ]
    rest = _row(("", 0), tallies.get(("", 0), _Tally()), factors, iterations, baseline, texts)
    return (*sorted(rows, key=lambda row: (-row.self_ms, row.file, row.line)), rest)


def _tally_of(tallies: dict[tuple[str, int], _Tally], lines: tuple[CodeLine, ...], index: int) -> _Tally:
    if not 0 <= index < len(lines):
        return tallies.setdefault(("", 0), _Tally())
    tally = tallies.setdefault((lines[index].file, lines[index].line), _Tally())
    if lines[index].function:
        tally.functions[lines[index].function] += 1
    return tally


def _is_arrival(task: Task, line: int, previous: int) -> bool:
    return line != previous and task.phase is not Phase.BACKWARD


def _factors(baseline: Baseline, tallies: dict[tuple[str, int], _Tally]) -> dict[Phase, float]:
    """Milliseconds of the iteration per µs tallied, phase by phase."""
    totals: Counter[Phase] = Counter()
    for tally in tallies.values():
        totals.update({phase: tally.typical_us(phase) for phase in tally.times})  # type: ignore[arg-type]
    return {phase: baseline.phases[phase] / total for phase, total in totals.items() if total > 0}


def _row(
    place: tuple[str, int],
    tally: _Tally,
    factors: dict[Phase, float],
    iterations: int,
    baseline: Baseline,
    texts: dict[str, list[str]],
) -> LineCost:
    file, line = place
    ms = {phase: tally.typical_us(phase) * factors.get(phase, 0.0) for phase in Phase}
    if place == ("", 0):
        # A phase with time but without any task is nobody's.
        for phase in Phase:
            if phase not in factors:
                ms[phase] += baseline.phases[phase]
    total = sum(ms.values())
    module = max(tally.modules, key=lambda index: tally.modules[index], default=-1)
    text = texts.get(file, [])
    return LineCost(
        file=file,
        line=line,
        function=max(tally.functions, key=lambda name: tally.functions[name], default=""),
        module=baseline.profile.trace.modules[module] if module >= 0 else "",
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
    )
