"""One measured iteration and its simulation, as the JSON that other programs read."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass

TIMELINE_SCHEMA = "skyline.timeline/1"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The work of one lane in order, as columns of one length; times in ms from the start of the iteration.

    ``label`` indexes the report's ``labels``, ``phase`` its ``phases``, ``place`` its ``places`` (-1: none).
    ``count`` is the number of pieces of work in one entry: neighbours too short for the resolution are
    merged, with the label, the phase and the place of the longest.
    """

    name: str
    start_ms: tuple[float, ...]
    end_ms: tuple[float, ...]
    label: tuple[int, ...]
    phase: tuple[int, ...]
    place: tuple[int, ...]
    count: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimelineSide:
    """The iteration as measured or as simulated; ``duration_ms`` is its duration."""

    title: str
    duration_ms: float
    lanes: tuple[LaneReport, ...]


@dataclass(frozen=True, slots=True)
class TimelinePlace:
    """A line of the person's code."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class TimelineReport:
    """``skyline.timeline/1``: iteration ``step`` of ``steps``, between two times.

    ``end_ms`` is the end of the later of the two sides. ``reason`` says why the simulated side does not
    answer the question.
    """

    schema: str
    step: int
    steps: int
    begin_ms: float
    end_ms: float
    measured: TimelineSide
    simulated: TimelineSide
    labels: tuple[str, ...]
    phases: tuple[str, ...]
    places: tuple[TimelinePlace, ...]
    reason: str = ""
