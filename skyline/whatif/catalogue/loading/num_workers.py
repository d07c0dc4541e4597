"""What if worker processes made the batches while the script computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.units import plural
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.cost.fetching import with_workers
from skyline.whatif.cost.loader_model import cores_of, inferred_load_us, reloaded, workers_keep_up
from skyline.whatif.cost.worker_queue import loader_and_compute_us
from skyline.whatif.loader_setting import LoaderSetting, present_setting, threads_in, with_start
from skyline.whatif.question import MOST_AT_ONCE, whole_number
from skyline.whatif.recording import Recording, has_loader_workers

_NEVER_LESS_SURE = 0.05


def enough_workers(recording: Recording, counts: Sequence[int]) -> Applicability:
    """Applicable if the script's thread makes batches; by default with as many workers as are needed to keep up."""
    if has_loader_workers(recording):
        return Applicability.no("the DataLoader already has workers")
    load_ms = _loading_ms(recording)
    if load_ms <= 0 or not recording.has_steps:
        return Applicability.no("no DataLoader makes batches on the script's thread")
    rest_ms = max(recording.iteration_ms.value - load_ms, 0.01 * load_ms)
    needed = min(16, ceil(load_ms / rest_ms) + 1)
    return Applicability(True, values=tuple(map(str, counts)), default=str(needed))


def made_by_workers(scenario: Scenario, workers: int, recording: Recording) -> Scenario:
    """The scenario in which workers make batches ahead; the costs were measured on another machine."""
    if workers == 0:
        return scenario
    first, last = recording.ends_in(scenario.graph)
    kineto = replace(
        recording.kineto,
        graph=scenario.graph,
        event=scenario.graph.tasks.origin,
        steps=replace(recording.kineto.steps, first=first, last=last),
    )
    ahead = LoaderSetting(workers).asked(scenario).prefetch
    try:
        answer = with_workers(recording.trace, kineto, workers, prefetch=ahead)
    except UsageError:
        return scenario
    step_ms = recording.iteration_ms.value
    # On a CPU, the workers take cores from the computation; the trace does not show the number of cores.
    load_ms = _loading_ms(recording)
    return scenario.changed(
        answer.graph,
        below_ms=min(load_ms, _NEVER_LESS_SURE * step_ms),
        above_ms=_NEVER_LESS_SURE * step_ms if recording.on_gpu else load_ms,
        assumptions=(
            f"a worker needs as long for a batch as the script does now, {answer.loading_us / 1e3:.1f} ms",
            (
                f"each worker has a core, and {answer.busy_workers:.1f} are busy at a time: the trace does not "
                "show the cores"
            ),
            "the cost of taking a batch from a worker was measured on another machine",
        ),
    )


def _loading_ms(recording: Recording) -> float:
    """The time per step that the script's thread takes to make batches, in ms."""
    graph = recording.graph
    chosen = select(graph, kind=TaskKind.DATA, lane=recording.lane)
    return float(graph.durations[chosen].sum()) / recording.steps / 1e3


_VALUES = (0, 1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class NumWorkers(UsualWhatIf):
    """Moves the loader's work to separate lanes, and keeps the sum of all work within the available cores."""

    name: str = "num_workers"
    stage: Stage = Stage.LOADING
    grain: Grain = Grain.PHASES

    def title(self, value: str) -> str:
        """The change in a few words."""
        if value == "0":
            return "load batches in the script's own process"
        return f"load batches in {value or 'some'} worker process{'es' if value != '1' else ''}"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if a loader takes part of the iteration, and the time to make a batch can be computed."""
        if subject.recording is not None:
            return enough_workers(subject.recording, _VALUES[1:])
        if not subject.script.loaders:
            return Applicability.no("no DataLoader delivers the batches")
        now = present_setting(subject).workers
        load, compute = loader_and_compute_us(subject.outline, subject.lane)
        if now:
            told = inferred_load_us(subject)
            if told is None:
                return Applicability.no(
                    f"the batches of the DataLoader's {now} worker{'s' if now > 1 else ''} are ready when the script "
                    "needs them: more workers gain nothing; to predict fewer, profile the script with num_workers=0"
                )
            load = told
        if load <= 0:
            return Applicability.no("the DataLoader takes no measurable time")
        cores = cores_of(subject)
        enough = min(cores, max(1, ceil(0.98 * load / compute))) if compute > 0 else cores
        values = tuple(str(count) for count in _VALUES if count <= cores and count != now)
        return Applicability(True, values=values, default=str(enough if enough != now else max(now - 1, 0)))

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Apply all questions about the loader and the threads together, because they share the cores."""
        workers = whole_number(self.name, value, least=0, most=MOST_AT_ONCE)
        if subject.recording is not None:
            return made_by_workers(scenario, workers, subject.recording)
        now = present_setting(subject)
        if workers == now.workers:
            return scenario
        setting = replace(now, workers=workers).asked(replace(scenario, choices=_others(scenario)))
        answer = reloaded(scenario, subject, setting)
        changed = scenario.changed(
            answer.graph,
            below_ms=answer.likely_ms - answer.best_ms,
            above_ms=answer.worst_ms - answer.likely_ms,
            assumptions=_assumed(subject, scenario, setting, answer.load_us),
        )
        return with_start(changed, subject, setting, answer.load_us)


def _others(scenario: Scenario) -> dict[str, str]:
    return {name: value for name, value in scenario.choices.items() if name != "num_workers"}


def _assumed(
    baseline: Subject, scenario: Scenario, setting: LoaderSetting, load_us: float
) -> tuple[str, ...]:
    now = present_setting(baseline).workers
    made = f"{load_us / 1e3:.1f} ms"
    if setting.workers == 0:
        return (f"the script takes as long for a batch as a worker does now, {made}",)
    told = (
        f"a worker needs as long for a batch as the script does now, {made}"
        if now == 0
        else f"a worker needs {made} for a batch, by the processor time that it took"
        if workers_keep_up(baseline)
        else f"a worker needs {made} for a batch: it is never idle, because the script waits for its batches"
    )
    threads, cores = threads_in(scenario, baseline), cores_of(baseline)
    sharing = (
        f"the machine with the GPU has {cores} cores"
        if baseline.script.mode == "predicted" and baseline.on_gpu
        else f"workers and computing share {cores} cores"
        if threads + setting.workers <= cores
        else f"{plural(threads, 'computing thread')} and {plural(setting.workers, 'worker')} share {cores} cores "
        "and slow each other down"
    )
    return told, sharing


WHATIF = NumWorkers()
