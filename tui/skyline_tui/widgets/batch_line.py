"""The batch size of both bars, and the place that sets it."""

from __future__ import annotations

from pathlib import PurePath

from textual.content import Content

from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.report.basis import Direction, direction
from skyline.report.place import middle
from skyline.report.schema import EstimateReport, ProfileReport
from skyline_tui.figures import ARROW, MUTED, flow, time_change
from skyline_tui.scale import BarPoint, CurveScale
from skyline_tui.widgets.words import Words


class BatchLine(Words):
    """Batch size, iteration time, reliability, and the place in the code."""

    def __init__(self) -> None:
        super().__init__(id="batch-line")

    def show(
        self,
        profile: ProfileReport,
        scale: CurveScale | None,
        asked: int | None,
        then: Expected | None,
        *,
        held: bool = False,
    ) -> None:
        """Wrap to the width."""
        width = self.content_size.width or self.app.size.width - 2
        # Widgets below must not move during a drag, even when it passes the script's own size.
        moved = asked is not None and asked != profile.batch_size.value
        self.say(flow(_parts(profile, scale, asked, then, width // 3), width), steady=moved or held)


def _parts(
    profile: ProfileReport,
    scale: CurveScale | None,
    asked: int | None,
    then: Expected | None,
    name_cells: int,
) -> list[Content]:
    """File names longer than ``name_cells`` are shortened in the middle, so that the place fits the line."""
    batch_size = profile.batch_size
    if batch_size.value is None:
        return []
    moved = asked is not None and asked != batch_size.value
    sizes = f"{batch_size.value} {ARROW} {asked}" if moved else str(batch_size.value)
    parts = [Content.assemble("Batch size ", (sizes, "bold"))]
    if then is not None:
        parts.append(Content(time_change(profile.iteration_ms, then.iteration_ms)))
        if then.extrapolated:
            limit = scale.trusted_up_to if scale else None
            beyond = f" beyond {limit}" if limit is not None and asked is not None and asked > limit else ""
            parts.append(Content.styled(f"! extrapolated{beyond}", "bold $text-warning"))
    if batch_size.knob is not None:
        knob = batch_size.knob
        place = knob.cell or f"{middle(PurePath(knob.file).name, name_cells)}:{knob.line}"
        parts.append(Content.styled(f"set in {place}", MUTED))
    elif batch_size.lives is not None:
        lives = batch_size.lives
        file = middle(PurePath(lives.file).name, name_cells)
        parts.append(Content.styled(f"set in {file}:{lives.line} ({lives.key})", MUTED))
    elif batch_size.reason:
        parts.append(Content.styled(f"! cannot be rewritten: {batch_size.reason}", "$text-warning"))
    return parts


@dataclass(frozen=True, slots=True)
class Expected:
    """Values for the question on the screen, and whether their range is entirely a gain or a loss."""

    iteration_ms: Interval
    throughput: Interval | None
    peak_bytes: Interval
    extrapolated: bool
    direction: Direction = ""

    @classmethod
    def answered(cls, estimate: EstimateReport) -> Expected:
        """The values from the server's answer."""
        return cls(
            estimate.iteration_ms,
            estimate.throughput,
            estimate.peak,
            estimate.extrapolated,
            direction(estimate.speedup_range),
        )

    @classmethod
    def read_off(cls, place: BarPoint) -> Expected:
        """The values from the curve, which have no range, so they are neither a gain nor a loss."""
        return cls(
            Interval.exact(place.iteration_ms),
            Interval.exact(place.throughput),
            Interval.exact(place.memory_bytes),
            place.extrapolated,
        )
