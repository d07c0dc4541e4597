"""SKY601: in some iterations one part takes far longer than usual."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from skyline.findings.base import Evidence, Finding
from skyline.interval import median
from skyline.lazy_dataclass import dataclass
from skyline.trace.profile import BareTimes, Profile
from skyline.trace.record import CodeLine
from skyline.units import format_ms
from skyline.whatif.subject import Subject

_DEVIATIONS = 3.0
"""Limit of SageMaker Debugger's StepOutlier (``smdebug_rulesconfig``, ``rules.py``), in standard deviations."""
_TO_DEVIATION = 1.4826
"""Standard deviation over median absolute deviation for normally distributed samples (Hampel, 1974). The estimate is
robust for few samples with outliers among them."""
_LONGER = 1.5
_LEAST_SEEN = 12
_MOST = 0.25
"""Share of the iterations above which they are not outliers but another kind of iteration."""
_SHARE = 0.05
_MOSTLY = 0.6
_BY_CHANCE = 0.02
"""Highest probability of a chance result: other load on the machine hits a part in proportion to its length."""
_REST = "the rest, outside loading, backward pass and optimizer step"


@dataclass(frozen=True, slots=True)
class StepOutliers:
    """Several iterations are three deviations above the median, all because of the same part.

    Together they cost a twentieth of the time. If the excess is in varying parts, load on the machine is the likelier
    cause and there is no finding.
    """

    code: str = "SKY601"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the slow part; the cost is the excess, averaged over all iterations."""
        profile = subject.profile
        if profile is None or profile.prediction is not None:
            return None
        steps = profile.times.steps_ms
        places = _outliers(steps)
        if not places or len(places) > _MOST * len(steps):
            return None
        typical = median(steps)
        cost_ms = sum(steps[place] - typical for place in places) / len(steps)
        part = _part(profile.times, places)
        if cost_ms <= _SHARE * typical or not part:
            return None
        longest = max(steps[place] for place in places)
        return Finding.at(
            self.code,
            f"{len(places)} of {len(steps)} iterations take up to {format_ms(longest)} in place of "
            f"{format_ms(typical)}: the time goes into {part}",
            _line(profile, part),
            cost_ms,
            None,
            (Evidence(f"{len(steps)} iterations were seen; another run may show more or fewer"),),
        )


def _outliers(steps: Sequence[float]) -> list[int]:
    if len(steps) < _LEAST_SEEN:
        return []
    typical = median(steps)
    deviation = _TO_DEVIATION * median([abs(step - typical) for step in steps])
    limit = max(typical + _DEVIATIONS * deviation, _LONGER * typical)
    return [place for place, step in enumerate(steps) if step > limit]


def _part(times: BareTimes, places: Sequence[int]) -> str:
    """The part with most of the excess of nearly all outliers, more often than by chance."""
    parts = _parts(times)
    blamed: Counter[str] = Counter()
    for place in places:
        excess = times.steps_ms[place] - median(times.steps_ms)
        own = {name: part[place] - median(part) for name, part in parts.items()}
        most = max(own, key=lambda name: own[name])
        blamed[most if own[most] >= _MOSTLY * excess else ""] += 1
    name, count = blamed.most_common(1)[0]
    if not name or count < 0.9 * len(places):
        return ""
    share = median(parts[name]) / max(1e-9, median(times.steps_ms))
    return name if share**count <= _BY_CHANCE else ""


def _parts(times: BareTimes) -> dict[str, tuple[float, ...]]:
    count = len(times.steps_ms)
    known = {
        "data loading": times.data_ms,
        "the backward pass": times.backward_ms,
        "the optimizer step": times.optimizer_ms,
    }
    known = {name: part for name, part in known.items() if len(part) == count}
    rest = tuple(
        step - sum(part[place] for part in known.values()) for place, step in enumerate(times.steps_ms)
    )
    return {**known, _REST: rest}


def _line(profile: Profile, part: str) -> CodeLine | None:
    """A line that represents a part of the iteration."""
    found = {
        "data loading": [loader.created_line for loader in profile.loaders],
        "the backward pass": [call.line for call in profile.calls if call.name == "backward"],
        "the optimizer step": [one.step_line for one in profile.optimizers],
    }.get(part, [])
    return next((line for line in found if line is not None), profile.loop_line)


RULE = StepOutliers()
