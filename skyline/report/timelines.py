"""One measured iteration and its simulation, lane by lane: ``skyline.timeline/1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from skyline.graph.column import Ids, Indices, Times
from skyline.graph.graph import Graph
from skyline.graph.task import ON_GPU, PHASES
from skyline.report.module_lanes import module_lanes
from skyline.report.timeline_report import (
    TIMELINE_SCHEMA,
    LaneReport,
    TimelinePlace,
    TimelineReport,
    TimelineSide,
)
from skyline.simulate.critical_path import chain_us, critical_chain
from skyline.simulate.engine import Timeline, simulate
from skyline.trace.profile import Profile
from skyline.trace.record import Record
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice
from skyline.whatif.recording import Recording
from skyline.whatif.subject import Grain, Subject

CRITICAL = "critical path"


@dataclass(frozen=True, eq=False)
class TimelineWork:
    """Pieces of work of one iteration as columns, times in ms from its start.

    ``lane``, ``label``, ``phase`` and ``place`` are codes.
    """

    title: str
    duration_ms: float
    lanes: tuple[str, ...]
    lane: Indices
    start_ms: Times
    end_ms: Times
    label: Indices
    phase: Indices
    place: Indices


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of one iteration in full; windows are cut from them."""

    step: int
    steps: int
    measured: TimelineWork
    simulated: TimelineWork
    labels: tuple[str, ...]
    places: tuple[TimelinePlace, ...]
    reason: str = ""

    @property
    def end_ms(self) -> float:
        """The end of the later of the two sides."""
        ends = [
            max(side.duration_ms, float(side.end_ms.max(initial=0.0)))
            for side in (self.measured, self.simulated)
        ]
        return max(ends)


def window(
    sides: Sides, begin_ms: float | None = None, end_ms: float | None = None, most: int = 400
) -> TimelineReport:
    """The spans between two times (None: all), with at most about ``most`` pieces per lane."""
    begin = 0.0 if begin_ms is None else begin_ms
    end = sides.end_ms if end_ms is None else max(end_ms, begin)
    used: dict[int, int] = {}
    return TimelineReport(
        TIMELINE_SCHEMA,
        sides.step,
        sides.steps,
        begin,
        end,
        _side(sides.measured, begin, end, most, used),
        _side(sides.simulated, begin, end, most, used),
        tuple(sides.labels[label] for label in used),
        tuple(phase.value for phase in PHASES),
        sides.places,
        sides.reason,
    )


def _side(work: TimelineWork, begin: float, end: float, most: int, used: dict[int, int]) -> TimelineSide:
    lanes: list[LaneReport] = []
    for code, name in enumerate(work.lanes):
        inside = np.flatnonzero((work.lane == code) & (work.end_ms > begin) & (work.start_ms < end))
        rows, start, until, count = thinned(
            work.start_ms[inside], work.end_ms[inside], max(end - begin, 1e-9) / max(most, 1)
        )
        rows = inside[rows]
        labels: list[int] = work.label[rows].tolist()
        lanes.append(
            LaneReport(
                name,
                tuple(np.round(start, 5).tolist()),
                tuple(np.round(until, 5).tolist()),
                tuple(used.setdefault(label, len(used)) for label in labels),
                tuple(work.phase[rows].tolist()),
                tuple(work.place[rows].tolist()),
                tuple(count.tolist()),
            )
        )
    return TimelineSide(work.title, work.duration_ms, tuple(lanes))


def sides_of(subject: Subject, choices: Sequence[Choice] = (), step: int | None = None) -> Sides:
    """One iteration of a profile or a trace, and its simulation under a question.

    Without ``step`` it is the last iteration of a profile, since iterations become steady, or a middle one of a trace.

    Raises:
        UsageError: a what-if does not exist, or does not take the value.
    """
    composed = compose(subject, choices, at_least=Grain.OPERATORS)
    timeline = subject.timeline
    if timeline.graph is not composed.scenario.graph:
        timeline = simulate(composed.scenario.graph)
    labels = _Codes()
    if subject.recording is not None:
        steps = max(subject.count, 1)
        step = steps // 2 if step is None else min(max(step, 0), steps - 1)
        measured, simulated = _of_recording(subject.recording, step, timeline, labels)
        lines = subject.graph.structure.lines
    else:
        profile = subject.script
        steps = len(profile.trace.iterations)
        step = steps - 1 if step is None else min(max(step, 0), steps - 1)
        measured, simulated = _of_profile(profile, step, timeline, subject.lane, labels)
        lines = profile.trace.lines
    title = "simulated" if not choices else f"simulated: {composed.title}"
    places = tuple(TimelinePlace(line.file, line.line) for line in lines)
    return Sides(
        step, steps, measured, replace(simulated, title=title), labels.texts, places, composed.reason
    )


def sides_of_simulation(timeline: Timeline, title: str) -> Sides:
    """A simulation without a measured side."""
    labels = _Codes()
    simulated = _simulated(timeline, 0.0, timeline.makespan_us, None, labels)
    nothing, no_times = np.zeros(0, np.int64), np.zeros(0)
    measured = TimelineWork("", 0.0, (), nothing, no_times, no_times, nothing, nothing, nothing)
    return Sides(0, 1, measured, replace(simulated, title=title), labels.texts, ())


def _of_profile(
    profile: Profile, step: int, timeline: Timeline, lane: str, labels: _Codes
) -> tuple[TimelineWork, TimelineWork]:
    measured = _recorded(profile, step, labels)
    ends = np.array(timeline.iteration_ends_us(lane))
    own = step if len(ends) == len(profile.trace.iterations) else _typical(ends)
    begin = float(ends[own - 1]) if own else 0.0
    iteration = int(np.unique(timeline.graph.tasks.iteration)[own])
    return measured, _simulated(timeline, begin, float(ends[own]), iteration, labels)


def _of_recording(
    recording: Recording, step: int, timeline: Timeline, labels: _Codes
) -> tuple[TimelineWork, TimelineWork]:
    graph, kineto = recording.graph, recording.kineto
    starts, ends = kineto.start_us, kineto.start_us + graph.durations
    if recording.has_steps:
        number = range(len(kineto.steps))[recording.counted][step]
        begin, end = float(starts[kineto.steps.first[number]]), float(starts[kineto.steps.last[number]])
        first, last = recording.ends_in(timeline.graph)
        window = float(timeline.starts[first[number]]), float(timeline.starts[last[number]])
    else:
        number, begin, end = 0, float(starts.min(initial=0.0)), float(ends.max(initial=0.0))
        window = 0.0, timeline.makespan_us
    # The GPU may finish the last step after the host; after other steps it works on the next step.
    is_last = recording.has_steps and number == len(kineto.steps) - 1
    measured = _tasks(graph, np.arange(len(graph)), starts, ends, begin, end, labels, open_end=is_last)
    simulated = _simulated(timeline, *window, None, labels, open_end=is_last)
    return replace(measured, title="measured"), simulated


def _typical(ends: Times) -> int:
    """An iteration of typical length from the second half, where iterations are steady."""
    lengths = np.diff(ends, prepend=0.0)
    steady = len(ends) // 2
    return steady + int(np.argmin(np.abs(lengths[steady:] - np.mean(lengths[steady:]))))


class _Codes:
    """A number for each text, in the order of first use."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(self._codes)

    def of(self, text: str) -> int:
        return self._codes.setdefault(text, len(self._codes))


def _recorded(profile: Profile, step: int, labels: _Codes) -> TimelineWork:
    trace = profile.trace
    mark = trace.iterations[step]
    phase = {one: code for code, one in enumerate(PHASES)}
    own: dict[str, list[Record]] = {}
    for record in trace.records:
        if record.iteration == mark.index:
            own.setdefault(record.lane, []).append(record)
    lanes: list[str] = []
    rows: list[tuple[int, str, Record, float]] = []
    for name, records in own.items():
        rows += [(len(lanes), record.name, record, record.end_us) for record in records]
        lanes.append(name)
        for below in module_lanes(records, trace.modules):
            rows += [(len(lanes), span.label, span.first, span.end_us) for span in below.spans]
            lanes.append(below.name if len(own) == 1 else f"{below.name}, {name}")
    how = "predicted" if profile.prediction is not None else "measured, while recorded"
    return TimelineWork(
        how,
        (mark.end_us - mark.start_us) / 1e3,
        tuple(lanes),
        np.array([lane for lane, *_ in rows], np.int64),
        (np.array([first.start_us for _, _, first, _ in rows]) - mark.start_us) / 1e3,
        (np.array([end for *_, end in rows]) - mark.start_us) / 1e3,
        np.array([labels.of(label) for _, label, *_ in rows], np.int64),
        np.array([phase[first.phase] for _, _, first, _ in rows], np.int64),
        np.array([first.line if first.line >= 0 else first.call_line for _, _, first, _ in rows], np.int64),
    )


def _simulated(
    timeline: Timeline,
    begin_us: float,
    end_us: float,
    iteration: int | None,
    labels: _Codes,
    *,
    open_end: bool = False,
) -> TimelineWork:
    """The tasks of one iteration. An extra lane before them shows what the iteration waits for at each moment."""
    graph = timeline.graph
    chosen = np.arange(len(graph))
    if iteration is not None:
        chosen = chosen[graph.tasks.iteration == iteration]
    work = _tasks(graph, chosen, timeline.starts, timeline.ends, begin_us, end_us, labels, open_end=open_end)
    chain: Ids = critical_chain(timeline)
    start, end, _ = chain_us(timeline, chain, begin_us, end_us)
    kept = end > start
    chain, start, end = chain[kept], start[kept], end[kept]
    critical = _tasks(graph, chain.astype(np.int64), None, None, begin_us, end_us, labels, start, end)
    return TimelineWork(
        work.title,
        work.duration_ms,
        (CRITICAL, *work.lanes),
        np.concatenate([np.zeros(len(critical.lane), np.int64), work.lane + 1]),
        np.concatenate([critical.start_ms, work.start_ms]),
        np.concatenate([critical.end_ms, work.end_ms]),
        np.concatenate([critical.label, work.label]),
        np.concatenate([critical.phase, work.phase]),
        np.concatenate([critical.place, work.place]),
    )


def _tasks(
    graph: Graph,
    chosen: Indices,
    starts: Times | None,
    ends: Times | None,
    begin_us: float,
    end_us: float,
    labels: _Codes,
    own_starts: Times | None = None,
    own_ends: Times | None = None,
    *,
    open_end: bool = False,
) -> TimelineWork:
    """Tasks that take time and overlap a step, by the times of all tasks or their own.

    With ``open_end``, also GPU tasks after the step.
    """
    if own_starts is None or own_ends is None:
        assert starts is not None
        assert ends is not None
        own_starts, own_ends = starts[chosen], ends[chosen]
    within = own_starts < end_us
    if open_end:
        within |= ON_GPU[graph.tasks.kind[chosen]]
    kept = (own_ends > own_starts) & (own_ends > begin_us) & within
    chosen, own_starts, own_ends = chosen[kept], own_starts[kept], own_ends[kept]
    tasks = graph.tasks
    codes, lane = np.unique(tasks.lane[chosen], return_inverse=True)
    names, name = np.unique(tasks.name[chosen], return_inverse=True)
    name_codes: list[int] = names.tolist()
    lane_codes: list[int] = codes.tolist()
    label = np.array([labels.of(tasks.names[code]) for code in name_codes], np.int64)
    line = tasks.line[chosen].astype(np.int64)
    return TimelineWork(
        "",
        (end_us - begin_us) / 1e3,
        tuple(tasks.lanes[code] for code in lane_codes),
        lane.astype(np.int64),
        (own_starts - begin_us) / 1e3,
        (own_ends - begin_us) / 1e3,
        label[name] if len(label) else np.zeros(0, np.int64),
        tasks.phase[chosen].astype(np.int64),
        np.where(line >= 0, line, tasks.call_line[chosen].astype(np.int64)),
    )


def thinned(start: Times, end: Times, resolution: float) -> tuple[Indices, Times, Times, Indices]:
    """The pieces of a lane; pieces shorter than the resolution are merged with close neighbours.

    Returns, in order of start, for each merged piece: the number of its longest piece, its start, its end,
    and the number of its pieces.
    """
    if not len(start):
        nothing = np.zeros(0, np.int64)
        return nothing, start, end, nothing
    order = np.lexsort((end, start))
    start, end = start[order], end[order]
    short = end - start < resolution
    stretch = np.floor(start / resolution).astype(np.int64)
    # A new piece begins at every long one, after it, and where the next stretch begins.
    begins = np.ones(len(start), np.bool_)
    begins[1:] = ~short[1:] | ~short[:-1] | (stretch[1:] != stretch[:-1])
    first = np.flatnonzero(begins)
    piece: Ids = (np.cumsum(begins) - 1).astype(np.int32)
    count = np.bincount(piece, minlength=len(first)).astype(np.int64)
    by_length = np.lexsort((end - start, piece))
    longest = by_length[np.cumsum(count) - 1]
    return order[longest], start[first], np.maximum.reduceat(end, first), count
