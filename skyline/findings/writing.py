"""SKY602: printing, logging and saving take a large part of each iteration."""

from __future__ import annotations

import numpy as np

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms, step_ms
from skyline.graph.task import ON_GPU, PHASE
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import CodeLine, Phase
from skyline.units import format_ms
from skyline.whatif.catalogue.host.reading import READS
from skyline.whatif.subject import Subject

_SHARE = 0.05
_LINES = 4
_TRAINING = [PHASE[phase] for phase in (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)]
_EFFECTS = {"file": "writes a file", "folder": "makes a folder", "tracker": "calls a tracker"}


@dataclass(frozen=True, slots=True)
class _Line:
    """A reporting line: its action, its time per iteration, and the number of recorded iterations with it."""

    line: CodeLine
    does: str
    cost_ms: float
    ran: int


@dataclass(frozen=True, slots=True)
class Writing:
    """Lines that print, log or save take more than a twentieth of the iteration, outside passes and updates."""

    code: str = "SKY602"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the slowest such line; the cost is their total time on the script's own thread."""
        if not subject.has_run:
            return None
        lines = sorted(_reporting(subject), key=lambda one: -one.cost_ms)
        cost_ms = sum(one.cost_ms for one in lines)
        total_ms = step_ms(subject)
        if not lines or cost_ms <= _SHARE * total_ms:
            return None
        cure = "remove_sync" if saved_ms(subject, "remove_sync") > 0 else None
        return Finding.at(
            self.code,
            f"printing, logging and saving take {cost_ms / total_ms:.0%} of the iteration",
            lines[0].line,
            cost_ms,
            cure,
            tuple(
                Evidence.at(
                    f"{one.does}: {format_ms(one.cost_ms)} of an iteration, seen in {one.ran} of {subject.steps}",
                    one.line,
                )
                for one in lines[:_LINES]
            ),
        )


def _reporting(baseline: Subject) -> list[_Line]:
    graph = baseline.graph
    tasks, table = graph.tasks, graph.structure.lines
    free = (
        (tasks.phase == PHASE[Phase.OTHER])
        & ~ON_GPU[tasks.kind]
        & (tasks.lane == tasks.lane_code(baseline.lane))
    )
    times = graph.durations + graph.gaps
    found: list[_Line] = []
    for (file, number), does in _told(baseline).items():
        rows = [row for row, line in enumerate(table) if (line.file, line.line) == (file, number)]
        chosen = np.flatnonzero(free & np.isin(tasks.line, rows))
        # The line that calls a framework's loop includes all of the framework's work.
        trains = np.isin(tasks.line, rows) | np.isin(tasks.call_line, rows)
        if len(chosen) and not (trains & np.isin(tasks.phase, _TRAINING)).any():
            ran = len(np.unique(tasks.iteration[chosen]))
            cost_ms = float(times[chosen].sum()) / 1e3 / baseline.steps
            found.append(_Line(table[rows[0]], does, cost_ms, ran))
    return found


def _told(baseline: Subject) -> dict[tuple[str, int], str]:
    """Lines of the user's code that read a tensor's values or wrote output during the run."""
    does: dict[tuple[str, int], str] = {}
    for call in baseline.script.calls:
        if call.name in READS and call.line is not None and "via" not in call.options:
            does.setdefault((call.line.file, call.line.line), f"{call.name}()")
    for effect in baseline.script.side_effects:
        if effect.kind in _EFFECTS and effect.line is not None:
            does[effect.line.file, effect.line.line] = _EFFECTS[effect.kind]
    return does


RULE = Writing()
