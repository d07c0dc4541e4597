"""What if two waves of the training shared the GPU, the second in memory that the first's backward pass frees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from skyline.graph.column import Indices, Times
from skyline.graph.graph import Graph, scale
from skyline.graph.insertion import Insertion, insert
from skyline.graph.selection import select
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.memory.levels import RecordedLevels
from skyline.trace.record import IterationMark, Phase
from skyline.units import format_share
from skyline.whatif.base import Applicability, Provenance, Scenario, Semantics, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.models.batched_operators import kernel_factors
from skyline.whatif.constant import Constant
from skyline.whatif.memory import Memory
from skyline.whatif.number_formats import gpu_bytes_per_us
from skyline.whatif.question import number

_WAVES = Constant.at(2.0, "Wavelet trains with two waves under data parallelism")
_DRIFT = Constant.at(0.1, "an assumption: the waves keep their distance to a tenth of an iteration")
_PASSES = Constant.at(3.0, "a wave reads the weights of both waves and writes its own")


@dataclass(frozen=True, slots=True)
class WaveMemory:
    """The memory of one wave over its iteration: ``levels[i]`` bytes from ``times_us[i]`` on; it wraps around.

    An iteration takes ``cycle_us``, and the next one follows at once.
    """

    times_us: npt.NDArray[np.float64]
    levels: npt.NDArray[np.float64]
    cycle_us: float

    @classmethod
    def of(cls, recorded: RecordedLevels, begin_us: float, end_us: float) -> WaveMemory:
        """The recorded iteration."""
        cycle = max(1e-9, end_us - begin_us)
        return cls(np.clip(recorded.times_us - begin_us, 0.0, cycle), recorded.live, cycle)

    def peak(self, offset: float) -> float:
        """The highest sum of two waves, one ``offset`` of an iteration behind; it occurs at a step of either wave."""
        shift = offset * self.cycle_us
        first, second = (
            self.levels + self._at(self.times_us - shift),
            self.levels + self._at(self.times_us + shift),
        )
        return float(max(first.max(), second.max()))

    def _at(self, moments: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        # Before the first step, the level is the last one, at index -1.
        return self.levels[np.searchsorted(self.times_us, moments % self.cycle_us, side="right") - 1]

    def around(self, offset: float) -> Interval:
        """The peak at this offset, and its range by the drift of the waves."""
        peaks = [self.peak(offset + part * _DRIFT.value) for part in np.linspace(-1.0, 1.0, 21).tolist()]
        peak = self.peak(offset)
        return Interval(peak, min(peaks), max(peak, *peaks))


@dataclass(frozen=True, slots=True)
class TickTock(UsualWhatIf):
    """Gives the GPU the kernels of two waves, each with a copy of the model and a batch of its own.

    Wavelet (Wang, Wang, Jiang, Li, Stoica, MLSys 2021): the second wave is half an iteration behind the first.
    """

    name: str = "tick_tock"
    training_only: bool = True
    semantics: Semantics = Semantics.CONVERGENCE
    stage: Stage = Stage.WAITING
    excludes: tuple[str, ...] = ("fuse_jobs",)

    def title(self, value: str) -> str:
        """The change in a few words."""
        return f"two waves of the training on the GPU, {value or 'a part'} of an iteration apart"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to a run on a GPU whose memory over the iteration was recorded."""
        _ = subject.script
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if subject.levels is None:
            return Applicability.no("the memory over an iteration was not recorded")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Let each kernel share the GPU with one like it, and add up the memory of both waves."""
        hint = f"{self.name}=0.5 starts the second wave half an iteration behind the first."
        offset = number(self.name, value, lambda one: 0 < one < 1, hint, needs="the distance of the waves")
        levels, mark = subject.levels, subject.script.trace.iterations[-1]
        assert levels is not None
        wave = WaveMemory.of(levels, mark.start_us, mark.end_us)
        one, both = float(levels.live.max()), wave.around(offset)
        graph = scenario.graph
        kernels = select(graph, kind=TaskKind.KERNEL)
        copies = select(graph, kind=TaskKind.COPY)
        factors = kernel_factors(subject, graph, kernels, int(_WAVES.value))
        cases = (
            _shared(subject, graph, kernels, longer, copies)
            for longer in (factors.likely, factors.least, np.full(len(kernels), _WAVES.value))
        )
        changed = scenario.between(
            subject,
            *cases,
            assumptions=(
                f"the peak of both waves is {format_share(both.value / (_WAVES.value * one))} of twice the peak of one",
                "each wave is a process with a core and workers of its own",
                f"the distance of the waves drifts by at most {_DRIFT.value:g} of an iteration",
                "kernels of the waves run together where units are idle (predicted for twice the work), or take turns",
                "after its update, a wave averages its weights with the older weights of the other wave",
            ),
            memory=lambda memory: _both(memory, offset, mark),
            provenance=Provenance.ASSUMED,
        )
        return replace(changed, samples_factor=changed.samples_factor * _WAVES.value)


def _shared(subject: Subject, graph: Graph, kernels: Indices, longer: Times, copies: Indices) -> Graph:
    """The graph of one wave that shares the GPU with another, and averages its weights after each update."""
    rate = gpu_bytes_per_us(subject)
    averaging_us = _WAVES.value * _PASSES.value * subject.peak.parameters / rate
    insertions: list[Insertion] = []
    for iteration in graph.iterations:
        update = select(graph, kind=TaskKind.KERNEL, phase=Phase.OPTIMIZER, iteration=iteration)
        if len(update):
            last = int(update[-1])
            lane = graph.tasks.lanes[int(graph.tasks.lane[last])]
            task = Task("average weights", TaskKind.KERNEL, WorkClass.OTHER, lane, Phase.OPTIMIZER, iteration)
            insertions.append(Insertion(task, averaging_us, last))
    # The bus and the links are shared, too.
    beside = scale(scale(graph, kernels, longer), copies, _WAVES.value)
    return insert(beside, insertions)


def _both(memory: Memory, offset: float, mark: IterationMark) -> Memory:
    """The memory of both waves; their peak determines the activations."""
    both = WaveMemory.of(memory.levels, mark.start_us, mark.end_us).around(offset)
    twice = memory.with_weights(_WAVES.value).with_activations(Interval.exact(_WAVES.value))
    return twice.to_peak(both, 0.0, 1.0)


WHATIF = TickTock()
