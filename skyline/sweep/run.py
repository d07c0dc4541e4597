"""One sweep: predicts, measures or interpolates combinations of values until all are known or time is up."""

from __future__ import annotations

from collections.abc import Callable

from skyline.capture.request import ProgressCallback
from skyline.errors import SkylineError, UsageError
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpus import gpu_named
from skyline.sweep.collected import Collected
from skyline.sweep.interpolation import between_runs
from skyline.sweep.measured import LEAST_ROUNDS, MeasuredPoints
from skyline.sweep.point import FailedPoint, SweepPoint
from skyline.sweep.predicted import predict_points
from skyline.sweep.setting import SweptScript, SweptSetting
from skyline.sweep.this_processor import RunsHere, fit_to_saved, is_this_processor, run_here
from skyline.sweep.values import MOST_VALUES, combinations, spread_out
from skyline.trace.profile import Profile


@dataclass(frozen=True, slots=True)
class SweepEffort:
    """The limits of a sweep: seconds after which no further point begins, and rounds per measured point.

    ``runs`` values of a prediction for this machine's processor also run here. Raises UsageError for too few rounds.
    """

    budget_s: float = 600.0
    rounds: int = 5
    runs: int = 3

    def __post_init__(self) -> None:
        if self.rounds < LEAST_ROUNDS:
            raise UsageError(f"{self.rounds} rounds show no spread", hint=f"Give at least {LEAST_ROUNDS}.")


@dataclass(frozen=True, slots=True)
class Swept:
    """The result. ``first`` is the profile of the first known point, None if it was not recorded.

    ``left`` points are neither known nor failed; ``ended`` is the error that ended the sweep early, if any.
    """

    settings: tuple[SweptSetting, ...]
    points: tuple[SweepPoint, ...]
    failed: tuple[FailedPoint, ...]
    left: int
    first: Profile | None
    spent_s: float
    interrupted: bool = False
    ended: str = ""
    others_cores: float = 0.0
    """The typical number of cores that other programs kept busy while points were measured."""
    runs_failed: str = ""
    """The reason why no value of a prediction could run here; empty if one did, or if none was asked for."""
    saved: Profile | None = None
    """The saved profile to which the points are fitted, if nothing ran."""


def sweep(
    script: SweptScript,
    effort: SweepEffort,
    *,
    progress: ProgressCallback,
    on_failure: Callable[[FailedPoint], None] = lambda failed: None,
    saved: Profile | None = None,
) -> Swept:
    """Takes all points, first those that cover the range.

    A point that fails is recorded and left out. An interruption keeps the points so far. If no point is
    known, the first error is raised. Values for which the time was too short are interpolated if they lie
    between measured ones. A prediction for this machine's processor is fitted to ``saved``, a profile with
    the present values, if none of its values ran.
    """
    every = combinations(one.varied for one in script.settings)
    if len(every) > MOST_VALUES:
        raise UsageError(
            f"these are {len(every):,} combinations; {MOST_VALUES:,} are the limit", hint="Take larger steps."
        )
    wanted = [every[index] for index in spread_out(len(every))]
    collected = Collected(len(wanted), effort.budget_s, progress, on_failure)
    profiles: list[Profile] = []
    interrupted, ended = False, ""
    measuring: MeasuredPoints | None = None
    here, fitted = RunsHere(), False
    try:
        if script.request.gpu:
            gpu = gpu_named(script.request.gpu).limited(script.request.gpu_memory_bytes)
            predict_points(script, gpu, wanted, collected, profiles.append)
            known = {one.values for one in collected.points}
            runs = [values for values in wanted if values in known][: effort.runs]
            if runs and is_this_processor(gpu) and collected.left_s > 0:
                here = run_here(script, runs, collected, effort.rounds)
            if saved is not None and is_this_processor(gpu):
                fitted = fit_to_saved(saved, script, gpu, collected)
        else:
            measuring = MeasuredPoints(script, collected, effort.rounds, profiles.append)
            measuring.take(wanted)
            for point in between_runs(collected.points, collected.open(wanted)):
                collected.add(point)
    except KeyboardInterrupt:
        if not collected.points:
            raise
        interrupted = True
    except SkylineError as error:
        if not collected.points:
            raise
        ended = error.message
    if not collected.points and collected.first_error is not None:
        raise collected.first_error
    return Swept(
        script.settings,
        collected.points,
        collected.failed,
        collected.left,
        profiles[0] if profiles else None,
        collected.spent_s,
        interrupted,
        ended,
        measuring.others_cores if measuring is not None else here.others_cores,
        here.failed,
        saved if fitted else None,
    )
