"""The verdict: what bounds the step and which change helps most, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyline.analysis.step_verdict import StepVerdict
from skyline.findings.bounds import busy_share
from skyline.findings.lines import dearest_lines
from skyline.graph.task import PHASE
from skyline.interval import median
from skyline.trace.record import CodeLine, Phase
from skyline.units import format_ms, format_ratio, format_ratio_range, format_share
from skyline.whatif.question import Choice, Estimate
from skyline.whatif.subject import Subject

WORTH = 1.02
"""Least gain of a recommended change: the lower end of its range must reach it."""
_BUSY = 0.95
"""Least busy share of a GPU that limits the step, whatever the critical path passes through."""
_WORTH_NAMING = 0.1
"""Least share of the critical path for a cause to be named."""
_UNCERTAIN = 0.05
"""Least relative uncertainty of the step time on a busy machine for a caution."""
_ANOTHER_MACHINE = "gpu"
"""This what-if requires another machine, whereas the verdict is about the script."""
_SAME_TRAINING = ("exact", "numerics")
_MODEL = (Phase.FORWARD, Phase.BACKWARD)
_BESIDE = 0.15
"""Least share of code outside model, loader and optimizer for it to be named together with the passes. Lines
with this share have a red time in the table of lines."""
_MOST = 0.5
"""Least share of such code in one line, or one kind of work, for this to be named alone."""


def verdict(subject: Subject, estimates: Sequence[Estimate]) -> StepVerdict:
    """The verdict on a profile or a trace. ``estimates`` are the answers to all what-ifs, one by one."""
    bound, place = _bound(subject)
    advice, chosen = _advice(estimates)
    return StepVerdict(
        bound,
        advice,
        None if chosen is None else str(Choice(chosen.name, chosen.value)),
        chosen is not None and chosen.rewrite == "available",
        place.file if place else "",
        place.line if place else 0,
        (chosen.rewrite_reason or "") if chosen is not None and chosen.rewrite == "refused" else "",
        _caution(subject),
    )


def _bound(subject: Subject) -> tuple[str, CodeLine | None]:
    """The cause that bounds the step, and the line with the largest part of it."""
    if subject.on_gpu and subject.gpu_recorded:
        return _gpu_bound(subject)
    times = subject.phases
    total = times.total
    if total <= 0:
        return "No phase of the step was recorded.", None
    model = sum(times[phase] for phase in _MODEL) / total
    shares = {phase: times[phase] / total for phase in Phase if phase not in _MODEL}
    largest = max(shares, key=lambda phase: shares[phase])
    share = format_share(shares[largest])
    takes = _OF_PHASE.get(largest) or f"{_other_work(subject, shares[largest])} takes"
    if model < shares[largest]:
        return f"{takes} {share} of the step.", _line(subject, largest)
    passes = "forward and backward passes take" if subject.trains else "calls take"
    if largest is not Phase.OTHER or shares[largest] < _BESIDE:
        return f"The model's {passes} {format_share(model)} of the step.", _line(subject, *_MODEL)
    # The sentence is followed by the place, so the part to which the place belongs comes last.
    place = _line(subject, Phase.OTHER, least=_MOST)
    if place is not None:
        beside = f"{takes[:1].lower()}{takes[1:]} {share}"
        return f"The model's {passes} {format_share(model)} of the step, and {beside}.", place
    behind = f"the model's {passes} {format_share(model)}"
    return f"{takes} {share} of the step, and {behind}.", _line(subject, *_MODEL)


_OF_PHASE = {
    Phase.DATA: "The script waits for data for",
    Phase.OPTIMIZER: "The optimizer's update takes",
    Phase.COMMUNICATION: "Communication between ranks takes",
}


def _other_work(subject: Subject, share: float) -> str:
    """The work outside all phases: by its kind if the run identified most of it, else by what it is not."""
    profile = subject.profile
    if profile is not None:
        times = profile.times
        kinds = {
            "Stepping environments": times.rollout_ms,
            "Evaluation": times.evaluation_ms,
            "Writing weights": times.saving_ms,
            "Logging": times.logging_ms,
        }
        shares = {name: _typical_share(part, times.steps_ms) for name, part in kinds.items()}
        name = max(shares, key=lambda name: shares[name])
        if shares[name] >= _MOST * share > 0:
            return name
    return "Code outside the model, the loader and the optimizer"


def _typical_share(part_ms: Sequence[float], steps_ms: Sequence[float]) -> float:
    return median([part / step for part, step in zip(part_ms, steps_ms, strict=True)]) if part_ms else 0.0


def _gpu_bound(subject: Subject) -> tuple[str, CodeLine | None]:
    path, busy = subject.critical_path, busy_share(subject)
    works = f"The GPU works for {format_share(busy)} of the step"
    if busy >= _BUSY:
        return f"{works}: its kernels bound the step.", None
    causes = {
        "Python and kernel launches": path.cpu + path.launch,
        "data": path.data,
        "communication": path.gpu_communication,
        "kernels": path.gpu_compute,
    }
    ordered = sorted(causes, key=lambda name: -causes[name])
    named = [f"{name} ({format_share(causes[name])})" for name in ordered if causes[name] >= _WORTH_NAMING]
    place = _line(subject, Phase.DATA) if ordered[0] == "data" else None
    return f"{works}. The critical path of the step is {', '.join(named)}.", place


def _line(subject: Subject, *phases: Phase, least: float = 0.0) -> CodeLine | None:
    """The line with the highest cost of these phases on the script's thread, if its share is at least ``least``."""
    graph = subject.graph
    tasks = graph.tasks
    inside = np.isin(tasks.phase, [PHASE[phase] for phase in phases])
    chosen = np.flatnonzero(inside & (tasks.lane == tasks.lane_code(subject.lane))).astype(np.int64)
    cost_us = (graph.durations + graph.gaps)[chosen]
    lines = dearest_lines(graph, chosen, cost_us)
    return lines[0][0] if lines and lines[0][1] >= least * cost_us.sum() else None


def _advice(estimates: Sequence[Estimate]) -> tuple[str, Estimate | None]:
    """The most certain gain among changes that preserve the course of training, else among those that change it.

    The choice leaves out the part of the ranges that all changes share, so the range shown can include no gain.
    """
    open_ = [
        one for one in estimates if one.applicable and one.present is None and one.name != _ANOTHER_MACHINE
    ]
    worth = [one for one in open_ if one.sure_speedup >= WORTH and one.semantics != "model"]
    ordered = sorted(worth, key=lambda one: (one.rewrite == "refused", -one.sure_speedup))
    same = [one for one in ordered if one.semantics in _SAME_TRAINING]
    if same:
        return _recommended(same[0]), same[0]
    maybe = sum(one.speedup >= WORTH and one.semantics in _SAME_TRAINING for one in open_)
    gains = f"{'is certain to gain' if maybe else 'gains'} {format_share(WORTH - 1)} or more"
    nothing = f"No change that keeps convergence unchanged {gains}{f'; {maybe} may' if maybe else ''}."
    if not ordered:
        return nothing, None
    return f"{nothing} Another change helps: {_recommended(ordered[0])}", ordered[0]


def _recommended(one: Estimate) -> str:
    speedup = one.speedup_range
    words = format_ratio(one.speedup) if speedup is None else format_ratio_range(speedup)
    title = one.title[:1].upper() + one.title[1:]
    doubt = " This gain is likely, not certain: verify it." if speedup is not None and speedup.low < 1 else ""
    return f"{title}: {words}, {one.provenance}; {_MEANING[one.semantics]}.{doubt}"


_MEANING = {
    "exact": "same computation",
    "numerics": "rounding differs",
    "convergence": "convergence may change",
    "model": "the model itself changes",
}


def _caution(subject: Subject) -> str:
    """A remark if the step time is uncertain, with the cause if it is known: other programs."""
    profile = subject.profile
    if profile is None or profile.first or profile.load is None:
        return ""
    step_ms = subject.iteration_ms
    spread = step_ms.half_width / step_ms.value
    cause = "The machine was busy" if profile.load.busy else "Iterations differ much"
    if spread > 1:
        ends = f"{format_ms(step_ms.low)} as well as {format_ms(step_ms.high)}"
        return f"{cause}: the step time may be {ends}. Measure again."
    if spread < _UNCERTAIN or not profile.load.busy:
        return ""
    return f"{cause}: the step time is uncertain by {format_share(spread)}. Measure again."
