"""The work at the cursor of the lanes, in words."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline_tui.figures import MUTED
from skyline_tui.widgets.lane_cells import NOTHING
from skyline_tui.widgets.lanes import Lanes


def work_words(lanes: Lanes) -> list[Content]:
    """Name, time, start and phase of the work; that nothing runs, if so."""
    report, lane, piece = lanes.report, lanes.lane, lanes.piece
    if report is None:
        return []
    scale = units.time_scale([lanes.window.ms_per_cell * 10])
    if lane is None or piece == NOTHING:
        return [
            Content(f"at {scale.text(lanes.time_ms)}"),
            Content.styled("nothing runs on this lane", MUTED),
        ]
    count, name = lane.count[piece], report.labels[lane.label[piece]]
    return [
        Content.styled(name if count == 1 else f"{count} pieces of work, the longest {name}", "bold"),
        Content(units.format_ms(lane.end_ms[piece] - lane.start_ms[piece])),
        Content(f"from {scale.text(lane.start_ms[piece])}"),
        Content(report.phases[lane.phase[piece]]),
    ]
