"""What if loader workers prepared more batches ahead, or fewer."""

from __future__ import annotations

import numpy as np

from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.cost.contention import Computing
from skyline.whatif.cost.loader_model import COSTS, core_bound_ms, inferred_load_us
from skyline.whatif.loader_setting import present_setting, shorter_on_average, threads_in, training_loader
from skyline.whatif.question import MOST_AT_ONCE, whole_number
from skyline.whatif.subject import NEEDS_PROFILE

_VALUES = (1, 2, 4, 8, 16)
_RARELY = 0.25
"""The share of batches that the script may wait for while the workers still count as keeping up on average."""
_A_WAIT = 0.05
"""The share of the iteration above which a delay counts as a wait: handing over a ready batch takes some time, too."""
_WORTH_A_WORD = 0.01
"""The least wait worth mentioning, beyond the cost of taking a batch, as a share of the iteration."""


@dataclass(frozen=True, slots=True)
class PrefetchFactor(UsualWhatIf):
    """Lets a deeper queue bridge single slow batches; it does not help if workers are always slower than the script."""

    name: str = "prefetch_factor"
    stage: Stage = Stage.LOADING
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"prepare {value or 'more'} batch{'es' if value != '1' else ''} ahead in each loader worker"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if workers keep up on average, but the script still waits for single batches."""
        values = tuple(map(str, _VALUES))
        if subject.profile is None:
            return Applicability(False, NEEDS_PROFILE, values, "4", only_with=("num_workers",))
        if training_loader(subject) is None:
            return Applicability.no("no DataLoader delivers the batches")
        now = present_setting(subject)
        if now.workers == 0:
            reason = "the DataLoader has no workers; combine this with num_workers"
            return Applicability(False, reason, values, "4", only_with=("num_workers",))
        default = str(2 * now.prefetch)
        offered = tuple(one for one in values if int(one) != now.prefetch)
        waits_ms = _waits_ms(subject)
        worth_ms = _WORTH_A_WORD * subject.iteration_ms.value
        if inferred_load_us(subject) is not None or float(np.mean(waits_ms > 0)) > _RARELY:
            reason = (
                "the script waits for most batches: the workers are too slow, and a longer queue stays empty"
            )
        elif float(np.mean(waits_ms)) < worth_ms:
            reason = "the script waits for no batch"
        elif _at_most_saved_ms(subject, waits_ms) < worth_ms:
            reason = "slow batches keep the workers busy all the time, so no batch can start earlier"
        else:
            return Applicability(True, values=offered, default=default)
        return Applicability(False, reason, offered, default, only_with=("num_workers",))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten waits by the time that the additional batches last. New workers start with this queue."""
        depth = whole_number(self.name, value, most=MOST_AT_ONCE)
        if subject.profile is None or "num_workers" in scenario.choices:
            return scenario
        waits_ms = _waits_ms(subject)
        mean_ms = float(np.mean(waits_ms))
        saved_ms = _saved_ms(subject, depth - present_setting(subject).prefetch, waits_ms)
        best_ms = mean_ms if saved_ms > 0 else saved_ms
        now, likely, best = (
            subject.step_ms(shorter_on_average(scenario.graph, subject, saved, mean_ms))
            for saved in (0.0, saved_ms, best_ms)
        )
        return scenario.changed(
            shorter_on_average(scenario.graph, subject, saved_ms, mean_ms),
            occasional=Interval(likely - now, best - now, likely - now + abs(now - likely)),
            assumptions=(
                f"the script waited for a batch in {np.count_nonzero(waits_ms)} of {len(waits_ms)} measured iterations",
                "slow batches come one at a time",
                "the change applies to the mean iteration: the median iteration does not wait",
            ),
        )


def _waits_ms(baseline: Subject) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The wait of each measured iteration beyond the cost of taking a ready batch, in ms."""
    data_ms = np.array(baseline.script.times.data_ms or (0.0,), np.float64)
    fetches = len(select(baseline.outline, kind=TaskKind.DATA, lane=baseline.lane)) / baseline.steps
    taking_ms = (
        max(1.0, fetches) * COSTS.taken_us(float(baseline.batch_bytes), len(baseline.batch_tensors)) / 1e3
    )
    typical_ms = max(taking_ms, float(np.median(data_ms)))
    least_ms = typical_ms + max(typical_ms, _A_WAIT * baseline.iteration_ms.value)
    return np.where(data_ms > least_ms, data_ms - typical_ms, 0.0)


def _saved_ms(
    baseline: Subject, deeper: int, waits_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    """The mean time saved per iteration, in ms: the longer queue shortens each wait by the time that it lasts."""
    lasts_ms = deeper * present_setting(baseline).workers * baseline.iteration_ms.value
    saved_ms = float(np.mean(np.where(waits_ms > 0, waits_ms - np.maximum(0.0, waits_ms - lasts_ms), 0.0)))
    return min(saved_ms, _at_most_saved_ms(baseline, waits_ms))


def _at_most_saved_ms(baseline: Subject, waits_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The most that any queue can save, in ms: the present workers have to make all slow batches, on these cores.

    Work on a batch that the script waits for began, at the earliest, when the queue was last full: as many
    iterations before as the queue holds batches.
    """
    now, iteration_ms = present_setting(baseline), baseline.iteration_ms.value
    slow_ms = waits_ms[waits_ms > 0] + (now.prefetch * now.workers - 1) * iteration_ms
    load_ms = float(slow_ms.sum()) / len(waits_ms)
    computing = Computing(
        1e3 * iteration_ms, baseline.thread_use, threads_in(Scenario.of(baseline), baseline)
    )
    bound_ms = max(iteration_ms, load_ms / now.workers, core_bound_ms(baseline, computing, 1e3 * load_ms))
    return max(0.0, iteration_ms + float(np.mean(waits_ms)) - bound_ms)


WHATIF = PrefetchFactor()
