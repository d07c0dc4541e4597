"""One iteration as it was measured and as it is simulated, as the JSON that other programs read."""

from __future__ import annotations

from skyline.lazy_dataclass import dataclass

TIMELINE_SCHEMA = "skyline.timeline/1"


@dataclass(frozen=True, slots=True)
class LaneReport:
    """The work of one lane in order, as columns of one length; times in ms from the start of the iteration.

    ``label`` indexes the report's ``labels``, ``phase`` its ``phases``, ``place`` its ``places`` (-1: none). ``count``
    is how many pieces of work one entry stands for: neighbours too short for the resolution are one, which has
    the label, the phase and the place of the longest of them.
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
    """The iteration as it was measured, or as it is simulated; ``duration_ms`` is what it took."""

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

    ``end_ms`` is where the later of the two sides ends. ``reason`` says why the simulated side is not what was asked
    for.
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
