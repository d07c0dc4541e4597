"""The work of the ranks of a job, as JSON for other programs: ``skyline.ranks/1``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from skyline import units
from skyline.findings.base import Finding
from skyline.findings.registry import find_in_job
from skyline.interval import Interval
from skyline.job.job import Evened, Job
from skyline.job.sub_model import SubModel
from skyline.lazy_dataclass import dataclass

RANKS_SCHEMA = "skyline.ranks/1"
_DOUBTFUL_REPLAY = 0.05
_ENTRY_MATTERS = 0.02
_EVEN = 0.01
"""The relative difference from an even job's step up to which a step counts as even."""


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank; times in ms per step. ``compute``, ``transfer``, ``waiting`` and ``rest`` sum to ``step_ms``."""

    rank: int
    file: str
    steps: int
    step_ms: float
    compute_ms: float
    transfer_ms: float
    """Collectives at work while nothing is computed."""
    waiting_ms: float | None
    """Waiting in collectives for other ranks. Null if no other rank shows how much of them was waiting."""
    rest_ms: float
    overlapped_ms: float
    """The part of the computing time in which collectives ran or waited as well."""
    arrived_last: int
    collectives: int
    behind_ms: float
    """Its delay relative to the median of the others, over the collectives at which it was last."""
    clock_ms: float | None
    """Offset of its machine's clock from the clock of the first rank."""
    residual_ms: float | None
    """Uncertainty of the offset: the median distance between the ends of collectives."""


@dataclass(frozen=True, slots=True)
class SubModelReport:
    """A smaller model for the straggler alone, which evens the step (FLuID), and the job's resulting step.

    ``kept_width`` is the share of the layers' width that is kept. Its range assumes kernel times in
    proportion to the width (low) and to its square (high). ``kernels_ms`` is the time per step of the
    straggler's kernels in the whole model.
    """

    kept_width: Interval
    kernels_ms: float
    step_ms: float
    gain_ms: float
    evens: bool
    """False if the step remains longer than an even job's: the straggler is late for other reasons, too."""
    semantics: Literal["convergence"]


@dataclass(frozen=True, slots=True)
class StragglerReport:
    """The rank that the others wait for. ``step_ms`` is null if no other rank does the same work."""

    rank: int
    as_fast_as: int | None
    step_ms: float | None
    gain_ms: float | None
    sub_model: SubModelReport | None = None
    """Null if the rank's kernels are not the cause, or are not known separately."""


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """The question about the tasks of the ranks, and the resulting step of the job."""

    change: str
    step_ms: float
    gain_ms: float


@dataclass(frozen=True, slots=True)
class KindReport:
    """Collectives of one kind; times in ms per step and rank."""

    kind: str
    count: int
    transfer_ms: float
    waiting_ms: float


@dataclass(frozen=True, slots=True)
class RanksReport:
    """``skyline.ranks/1``. ``step_ms`` is a step of the whole job, which ends when it ends on every rank."""

    schema: str
    devices: tuple[str, ...]
    world_size: int | None
    missing: tuple[int, ...]
    steps: int
    step_ms: float
    simulated_ms: float | None
    """Null if the job could not be simulated; results that depend on it are null, too."""
    replay_error: float | None
    ranks: tuple[RankReport, ...]
    kinds: tuple[KindReport, ...]
    straggler: StragglerReport | None
    whatif: ChangeReport | None
    notes: tuple[str, ...]
    findings: tuple[Finding, ...] = ()


def ranks_report(job: Job, asked: str = "", smaller: SubModel | None = None) -> RanksReport:
    """The report of a job; ``asked`` is the what-if that was applied to its traces, in words.

    ``smaller`` is the sub-model that evens the step, if there is one.
    """
    traces = [one.work for one in job.members.traces]
    return RanksReport(
        RANKS_SCHEMA,
        tuple(dict.fromkeys(one.device for one in traces if one.device)),
        job.members.world_size or None,
        job.members.missing,
        len(job.measured.ends_us[0]),
        job.measured.step_us / 1e3,
        None if job.simulated is None else job.simulated.step_us / 1e3,
        job.replay_error,
        tuple(_rank(job, place) for place in range(len(traces))),
        _kinds(job),
        None if job.straggler is None else _straggler(job, job.straggler, job.evened, smaller),
        _change(job, asked),
        tuple(_notes(job, asked)),
        find_in_job(job),
    )


def _change(job: Job, asked: str) -> ChangeReport | None:
    if job.changed is None or job.simulated is None:
        return None
    step_ms = job.changed.step_us / 1e3
    return ChangeReport(asked, step_ms, job.simulated.step_us / 1e3 - step_ms)


def _rank(job: Job, place: int) -> RankReport:
    work, share, late = job.alignment.ranks[place], job.shares[place], job.late[place]
    steps = len(work.step_number)
    scale = 1e-3 / steps
    alone = late.of == 0 and not (job.alignment.instances.row[place] >= 0).any()
    return RankReport(
        work.rank,
        work.file,
        steps,
        (work.end_us - work.begin_us) * scale,
        share.compute_us * scale,
        share.transfer_us * scale,
        None if alone else share.waiting_us * scale,
        share.rest_us * scale,
        share.overlapped_us * scale,
        late.last,
        late.of,
        late.behind_us * scale,
        _known(float(job.alignment.clock_us[place])),
        _known(float(job.alignment.residual_us[place])),
    )


def _known(time_us: float) -> float | None:
    return None if math.isnan(time_us) else time_us / 1e3


def _kinds(job: Job) -> tuple[KindReport, ...]:
    instances, split = job.alignment.instances, job.split
    steps = max(1, len(job.measured.ends_us[0]))
    kinds = np.array(instances.kind)
    found: list[KindReport] = []
    for kind in dict.fromkeys(instances.kind):
        chosen = kinds == kind
        waited = split.waiting_us[:, chosen]
        taking_part = max(1, int((instances.row[:, chosen] >= 0).any(axis=1).sum()))
        found.append(
            KindReport(
                kind,
                int(chosen.sum()),
                float(split.transfer_us[chosen].sum()) / steps / 1e3,
                float(np.nansum(waited)) / taking_part / steps / 1e3,
            )
        )
    return tuple(sorted(found, key=lambda one: -(one.transfer_ms + one.waiting_ms)))


def _straggler(job: Job, place: int, evened: Evened | None, smaller: SubModel | None) -> StragglerReport:
    rank = job.alignment.ranks[place].rank
    if evened is None or job.simulated is None:
        return StragglerReport(rank, None, None, None)
    step_ms, now_ms = evened.times.step_us / 1e3, job.simulated.step_us / 1e3
    return StragglerReport(
        rank,
        job.alignment.ranks[evened.model].rank,
        step_ms,
        now_ms - step_ms,
        None if smaller is None else _sub_model(smaller, now_ms, step_ms),
    )


def _sub_model(smaller: SubModel, now_ms: float, even_ms: float) -> SubModelReport:
    step_ms = smaller.times.step_us / 1e3
    evens = step_ms <= (1 + _EVEN) * even_ms
    return SubModelReport(
        smaller.width, smaller.kernels_us / 1e3, step_ms, now_ms - step_ms, evens, "convergence"
    )


def _notes(job: Job, asked: str) -> list[str]:
    """Unknown facts, and the basis of the numbers."""
    notes = list(job.members.notes)
    missing = job.members.missing
    if missing:
        notes.append(
            f"No trace of {_ranks(missing)} of {job.members.world_size}: waiting for them cannot be "
            "distinguished from transfer, and counts as transfer."
        )
    without = [one.rank for one in job.alignment.ranks if not len(one.exchanges)]
    if without:
        notes.append(f"No collective was recorded on {_ranks(without)}.")
    elif len(job.alignment.ranks) == 1:
        notes.append("One rank alone: the time that its collectives wait for others counts as transfer.")
    if not job.alignment.together:
        apart = np.flatnonzero(np.isnan(job.alignment.clock_us))
        notes.append(
            f"{_ranks([job.alignment.ranks[int(at)].rank for at in apart]).capitalize()} cannot be aligned: they "
            "have no collectives in common. The step is that of the slowest rank, and ranks are simulated separately."
        )
    if job.alignment.alone and len(job.alignment.ranks) > 1:
        count = len(job.alignment.alone)
        notes.append(
            f"Collectives of {count} channel{'s' * (count > 1)} ({', '.join(job.alignment.alone[:3])}"
            f"{', …' if count > 3 else ''}) do not match on all ranks that have them."
        )
    if not any(one.marked for one in job.alignment.ranks):
        notes.append("The script marked no steps (profiler.step()): the whole recording counts as one.")
    if job.entry_us > _ENTRY_MATTERS * job.measured.whole_us and job.entry_us > 2 * _longest_wait_us(job):
        notes.append(
            f"Up to {units.format_ms(job.entry_us / 1e3)} of the waiting is at the first collective, because "
            "recording did not begin at the same moment on all ranks. No rank is charged for it."
        )
    residuals = job.alignment.residual_us[~np.isnan(job.alignment.residual_us)]
    if len(residuals) > 1:
        notes.append(
            f"Clocks are aligned by the ends of {len(job.alignment.instances)} collectives, which then lie "
            f"{units.format_ms(float(residuals.max()) / 1e3)} apart at most (by the ranks' medians)."
        )
    if any(len(one.exchanges) and not one.on_gpu for one in job.alignment.ranks):
        notes.append(
            "Collectives ran on host threads: between two of them, the simulation uses the measured times."
        )
    if job.simulated is None:
        notes.append(
            "The job cannot be simulated: its ranks ran collectives of different groups in orders that contradict "
            "one another."
        )
    elif asked and job.changed is None:
        notes.append(
            f"{asked}: not available here, because none of the ranks concerned has tasks on GPU streams."
        )
    if job.replay_error is not None and job.replay_error > _DOUBTFUL_REPLAY:
        notes.append(
            f"The simulation of the unchanged job is {units.format_share(job.replay_error)} off: simulated figures are "
            "rough."
        )
    return notes


def _longest_wait_us(job: Job) -> float:
    later = job.split.waiting_us[:, ~job.split.entry]
    return float(np.nanmax(later)) if later.size else 0.0


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 8:
        return f"{len(ranks)} ranks"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"
