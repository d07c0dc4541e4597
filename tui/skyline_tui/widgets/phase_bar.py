"""The phases of an iteration; the parts sum to the headline."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from skyline import units
from skyline.report.schema import ProfileReport
from skyline.trace.record import Phase
from skyline_tui.figures import BAR, flow

GAP = 3


class PhaseBar(Static):
    """Each phase with its share, its time if there is space, and a bar in proportion to its share."""

    def __init__(self) -> None:
        super().__init__(id="phases")
        self._profile: ProfileReport | None = None

    def show(self, profile: ProfileReport) -> None:
        self._profile = profile
        self.refresh(layout=True)

    def on_resize(self) -> None:
        self.refresh(layout=True)

    def render(self) -> Content:
        """One line if possible; at 80 columns the words alone may fill it."""
        profile = self._profile
        if profile is None:
            return Content("")
        width = max(self.content_size.width or self.app.size.width - 2, 20)
        total = profile.phases.total or 1.0
        shares = {phase: profile.phases[phase] / total for phase in Phase if profile.phases[phase] > 0}
        scale = units.time_scale(profile.phases[phase] for phase in shares)
        words = {phase: f"{phase.value} {units.format_share(share)}" for phase, share in shares.items()}
        timed = {phase: f"{text} {scale.text(profile.phases[phase])}" for phase, text in words.items()}
        # Times take precedence over bars, since shorter bars are not readable.
        if _room(timed, width) >= 12:
            words = timed
        room = _room(words, width)
        parts: list[Content] = []
        for phase, text in words.items():
            cells = round(shares[phase] * room - 0.25) if room > 0 else 0
            bar = Content.styled(BAR * cells, f"$phase-{phase.value}")
            parts.append(Content(text) + (Content(" ") + bar if cells else Content("")))
        return flow(parts, width, GAP)


def _room(words: dict[Phase, str], width: int) -> int:
    return width - sum(len(text) + 1 for text in words.values()) - GAP * (len(words) - 1)
