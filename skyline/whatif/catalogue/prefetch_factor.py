"""What if loader workers prepared more batches ahead, or fewer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.whatif.base import Applicability, Basis, Grain, Scenario, Semantics, Stage, Subject
from skyline.whatif.baseline import Baseline
from skyline.whatif.cost.reloading import COSTS, told_load_us
from skyline.whatif.epoch_start import longer
from skyline.whatif.loader_setting import LoaderSetting, present_setting, training_loader
from skyline.whatif.recording import Recording
from skyline.whatif.subject import NEEDS_PROFILE
from skyline.whatif.whole_number import whole_number

_VALUES = (1, 2, 4, 8, 16)
_RARELY = 0.25
"""The share of batches that may be waited for while the workers can still be said to keep up on average."""
_WORTH_A_WORD = 0.01
"""Waiting beyond what taking a batch costs, as a share of the iteration."""


@dataclass(frozen=True, slots=True)
class PrefetchFactor:
    """A deeper queue bridges single slow batches; it helps no workers that are slower than the script throughout."""

    name: str = "prefetch_factor"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.LOADING
    grain: Grain = Grain.PHASES
    excludes: tuple[str, ...] = ()

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return f"prepare {value or 'more'} batch{'es' if value != '1' else ''} ahead in each loader worker"

    def basis(self, subject: Subject) -> Basis:
        """Never held against a measurement."""
        return Basis.MODEL_ONLY

    def detect(self, subject: Subject) -> Applicability:
        """Applicable where workers keep up on average and single batches are waited for all the same."""
        values = tuple(map(str, _VALUES))
        if isinstance(subject, Recording):
            return Applicability(False, NEEDS_PROFILE, values, "4", only_with=("num_workers",))
        if not isinstance(subject, Baseline):
            return Applicability.no(NEEDS_PROFILE)
        if training_loader(subject) is None:
            return Applicability.no("no DataLoader delivers the batches")
        now = present_setting(subject)
        if now.workers == 0:
            reason = "the DataLoader has no workers; ask about num_workers together with it"
            return Applicability(False, reason, values, "4", only_with=("num_workers",))
        default = str(2 * now.prefetch)
        offered = tuple(one for one in values if int(one) != now.prefetch)
        waits_ms = _waits_ms(subject)
        iteration_ms = subject.iteration_ms.value
        if told_load_us(subject) is not None or float(np.mean(waits_ms > 0)) > _RARELY:
            reason = "most batches are waited for: the workers are too slow, and a longer queue stays empty"
        elif float(np.mean(waits_ms)) < _WORTH_A_WORD * iteration_ms:
            reason = "no batch is waited for"
        else:
            return Applicability(True, values=offered, default=default)
        return Applicability(False, reason, offered, default, only_with=("num_workers",))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Waits become shorter by what the additional batches last. New workers start with this queue."""
        depth = whole_number(self.name, value)
        if not isinstance(subject, Baseline) or "num_workers" in scenario.choices:
            return scenario
        now = present_setting(subject)
        waits_ms = _waits_ms(subject)
        saved_ms, least_ms = _saved_ms(subject, now, replace(now, prefetch=depth), waits_ms)
        return scenario.changed(
            longer(scenario.graph, subject, -saved_ms),
            below_ms=max(0.0, float(np.mean(waits_ms)) - saved_ms) if saved_ms > 0 else 0.0,
            above_ms=max(0.0, saved_ms - least_ms),
            assumptions=(
                f"a batch was waited for in {np.count_nonzero(waits_ms)} of {len(waits_ms)} measured iterations",
                "slow batches come one at a time",
            ),
        )


def _waits_ms(baseline: Baseline) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """By measured iteration, waiting beyond what taking a batch that is ready costs."""
    data_ms = np.array(baseline.profile.times.data_ms or (0.0,), np.float64)
    fetches = len(select(baseline.outline, kind=TaskKind.DATA, lane=baseline.lane)) / baseline.steps
    taking_ms = (
        max(1.0, fetches) * COSTS.taken_us(float(baseline.batch_bytes), len(baseline.batch_tensors)) / 1e3
    )
    typical_ms = max(taking_ms, float(np.median(data_ms)))
    return np.where(data_ms > 2 * typical_ms, data_ms - typical_ms, 0.0)


def _saved_ms(
    baseline: Baseline,
    before: LoaderSetting,
    after: LoaderSetting,
    waits_ms: np.ndarray[tuple[int], np.dtype[np.float64]],
) -> tuple[float, float]:
    """Per iteration on average, likely and at least: each wait less what the longer queue lasts, never below none."""
    more = (after.prefetch - before.prefetch) * before.workers
    lasts_ms = more * baseline.iteration_ms.value
    likely = np.where(waits_ms > 0, waits_ms - np.maximum(0.0, waits_ms - lasts_ms), 0.0)
    return float(np.mean(likely)), 0.0 if more > 0 else 2 * float(np.mean(likely))


WHATIF = PrefetchFactor()
