"""The script, its speed, and the basis of the numbers."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from skyline import units
from skyline.report.basis import busy_words, command_line, device_name, when
from skyline.report.batch_contents import rate_words
from skyline.report.place import middle
from skyline.report.schema import ProfileReport
from skyline_tui.figures import MUTED, fitting, flow, spread

NARROW, SPACIOUS = 100, 140


class Headline(Static):
    """Name, basis and the four values; wraps on a narrow terminal."""

    def __init__(self, script: Path) -> None:
        super().__init__(id="headline")
        self._script = script
        self._profile: ProfileReport | None = None
        self._stale = False
        self._first = ""
        self._live, self._runs = True, True

    def show(self, profile: ProfileReport | None, *, stale: bool) -> None:
        """Show a new profile, or mark the current one as stale."""
        self._profile, self._stale, self._first = profile, stale, ""
        self.refresh(layout=True)

    def show_first(self, text: str) -> None:
        """Show first results of a measurement in place of older values; empty: none yet, or the end."""
        self._first = text
        self.refresh(layout=True)

    def show_mode(self, *, live: bool, runs: bool = True) -> None:
        """Show whether a release rewrites the file; a recording has no script to run."""
        self._live, self._runs = live, runs
        self.refresh(layout=True)

    def on_resize(self) -> None:
        self.refresh(layout=True)

    def render(self) -> Content:
        """Name and mode, the basis, the values."""
        width = max(self.content_size.width or self.app.size.width - 2, 20)
        profile = self._profile
        # The effect of a first toggle must not surprise; at medium widths the basis needs the space.
        explained = width < NARROW or width >= SPACIOUS
        if self._live:
            words = " changes go into the file" if explained else ""
            mode = Content.assemble(("live ●", "$text-success"), (words, MUTED))
        elif self._runs:
            words = " a writes" if explained else ""
            mode = Content.assemble(("staged ○", "$text-warning"), (words, MUTED))
        else:
            mode = Content.styled("recording", "$text-warning")
        name = middle(
            command_line(profile) if profile else self._script.name, width - (50 if explained else 25)
        )
        title = Content.assemble(("Skyline", "bold $text-primary"), "   ", (name, "bold"))
        if profile is None:
            first = [Content.styled(self._first, "bold")] if self._first else []
            return Content("\n").join([spread(title, mode, width), *first])
        numbers = [Content.styled(self._first, "bold")] if self._first else _numbers(profile)
        stale = (
            Content.styled("stale", "bold $text-warning on $warning-muted") if self._stale else Content("")
        )
        # The space of the word is reserved: nothing may move under the pointer when a profile becomes stale.
        room = width - title.cell_length - len("   ") - mode.cell_length - len(" stale ") - 2
        basis = fitting(room, *(" · ".join(_basis(profile, cells)) for cells in (40, 28, 16, 0)))
        if width >= NARROW and len(basis) <= room:
            first = title + Content("   ") + Content.styled(basis, MUTED) + Content(" ") + stale
            return Content("\n").join([spread(first, mode, width), flow(numbers, width)])
        lines = [_basis(profile, cells) for cells in (28, 16, 0)]
        parts = next((line for line in lines if len(" · ".join(line)) <= width), lines[-1])
        below = flow([Content.styled(part, MUTED) for part in parts], width, separator=" · ")
        return Content("\n").join(
            [spread(title + Content("   ") + stale, mode, width), below, flow(numbers, width)]
        )


def _numbers(profile: ProfileReport) -> list[Content]:
    predicted = " (predicted)" if profile.mode == "predicted" else ""
    bytes_now = profile.memory.peak_bytes.value
    peak = units.format_bytes_of(bytes_now, profile.memory.capacity_bytes) if bytes_now else "unknown"
    rate = rate_words(profile) or "unknown samples/s"
    busy = busy_words(profile)
    return [
        Content.assemble(
            (units.format_ms_interval(profile.iteration_ms), "bold"), f" per iteration{predicted}"
        ),
        Content.styled(rate, "bold"),
        Content.assemble("peak ", (peak, "bold")),
        *([Content.styled(busy, "$warning")] if busy else []),
    ]


def _basis(profile: ProfileReport, device_cells: int) -> list[str]:
    moment = when(profile.created)
    # For measurements of today, the time of day is enough.
    moment = moment.removeprefix(datetime.now().astimezone().strftime("%Y-%m-%d "))
    device = fitting(device_cells, device_name(profile), profile.device.kind.upper())
    if profile.device.kind == "cpu" and profile.intraop_threads:
        device += f", {units.plural(profile.intraop_threads, 'thread')}"
    parts = [f"{profile.mode} {moment} on {device}"]
    if profile.mode == "measured":
        parts.append(f"{len(profile.steps)} steps")
    return parts
