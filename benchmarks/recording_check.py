"""Requirements on the recording of a GPU for every script, so that its figures can be trusted."""

from __future__ import annotations

from dataclasses import dataclass

from skyline.capture.recording import LIGHT_FAILED
from skyline.graph.build import build
from skyline.simulate.engine import replay_error
from skyline.trace.profile import Profile
from skyline.trace.record import RecordKind

_DEVICE = (RecordKind.KERNEL, RecordKind.COPY)
_LEAST_COVERED, _MOST_OVERLAPPED, _MOST_REPLAY_ERROR = 0.99, 0.01, 0.05


@dataclass(frozen=True, slots=True)
class RecordingCheck:
    """Shares of the recorded iterations on the script's own thread, and device work without a launch."""

    kernels: int
    covered: float
    overlapped: float
    without_launch: tuple[str, ...]
    without_line: tuple[str, ...]
    replay_error: float
    light_failed: bool = False

    @classmethod
    def of(cls, profile: Profile) -> RecordingCheck:
        """The check of the iterations that were recorded in full."""
        trace = profile.trace
        total = sum(mark.end_us - mark.start_us for mark in trace.iterations)
        covered = overlapped = at = 0.0
        rows = [record for record in trace.records if record.lane == "cpu:main"]
        for row in sorted(rows, key=lambda row: row.start_us):
            overlapped += max(0.0, min(at, row.end_us) - row.start_us)
            covered += max(0.0, row.end_us - max(at, row.start_us))
            at = max(at, row.end_us)
        calls = {record.correlation for record in trace.records if record.kind is RecordKind.RUNTIME}
        work = [record for record in trace.records if record.kind in _DEVICE]
        return cls(
            len(work),
            covered / total,
            overlapped / total,
            tuple(sorted({record.name for record in work if record.correlation not in calls})),
            tuple(sorted({record.name for record in work if record.line < 0})),
            replay_error(build(trace), trace),
            any(note.startswith(LIGHT_FAILED) for note in profile.notes),
        )

    def misses(self) -> list[str]:
        """The requirements that are not met, in words."""
        found = [] if self.kernels else ["no kernels"]
        if self.covered <= _LEAST_COVERED:
            found.append(f"{self.covered:.1%} of the main thread covered")
        if self.overlapped >= _MOST_OVERLAPPED:
            found.append(f"{self.overlapped:.1%} of the main thread counted twice")
        if self.without_launch:
            found.append(f"no launch: {', '.join(self.without_launch[:3])}")
        if self.without_line:
            found.append(f"no line: {', '.join(self.without_line[:3])}")
        if self.replay_error >= _MOST_REPLAY_ERROR:
            found.append(f"simulation error {self.replay_error:.0%}")
        if self.light_failed:
            found.append("the light recording could not be read")
        return found
