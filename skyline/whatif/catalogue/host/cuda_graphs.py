"""What if each pass over the model were launched as one CUDA graph."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Indices
from skyline.graph.graph import Graph, scale
from skyline.graph.selection import select
from skyline.graph.task import PHASE, TaskKind
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.trace.record import PASSES
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.host.compiling import compiling_s, shapes_change
from skyline.whatif.catalogue.host.fusion import regions
from skyline.whatif.catalogue.host.operator_class import CostClass, operator_class
from skyline.whatif.catalogue.host.remove_sync import waits
from skyline.whatif.memory import Memory

_HOST = (TaskKind.CPU, TaskKind.LAUNCH)
_LEFT = 0.02
"""Share of the host's time in the passes that remains: copying the inputs in, and the launch itself."""
_LEFT_AT_WORST = 0.25
_WORTH_ASKING = 0.02


@dataclass(frozen=True, slots=True)
class CudaGraphs(UsualWhatIf):
    """Removes the host's time in the forward and backward pass; the GPU's work stays as it is."""

    name: str = "cuda_graphs"
    words: str = "launch the forward and backward pass as CUDA graphs"
    stage: Stage = Stage.FUSION
    grain: Grain = Grain.PHASES

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if kernels are launched one by one, and the passes do not wait for the GPU."""
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        graph = subject.graph_of(self.grain)
        if not len(select(graph, kind=TaskKind.LAUNCH, phase=PASSES)):
            return Applicability.no("no launch in a forward or backward pass was recorded")
        if any("GraphLaunch" in name for name in graph.tasks.names):
            return Applicability.no("CUDA graphs are in use already")
        if np.isin(graph.tasks.phase[waits(graph, subject.lane)], [PHASE[one] for one in PASSES]).any():
            return Applicability.no(
                "the forward or backward pass waits for the GPU: a CUDA graph cannot contain a wait"
            )
        if shapes_change(subject):
            return Applicability.no(
                "shapes differ from iteration to iteration: a CUDA graph has fixed shapes"
            )
        host_ms = float((graph.durations + graph.gaps)[_in_passes(subject, graph)].sum()) / 1e3
        if host_ms < _WORTH_ASKING * subject.steps * subject.iteration_ms.value:
            return Applicability.no("the host's share of the passes is too small to matter")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Scale the host's time in the passes to next to nothing."""
        chosen = _in_passes(subject, scenario.graph)
        cases = (scale(scenario.graph, chosen, left, gaps=True) for left in (_LEFT, 0.0, _LEFT_AT_WORST))
        return scenario.between(
            subject,
            *cases,
            assumptions=(
                "shapes are the same in every step, and nothing in the passes depends on values on the GPU",
                "kernels follow one another as closely as they do now",
                "PyTorch's compiler records the graphs; the gain of fused kernels is not included: see compile",
            ),
            one_off_s=_compiling_s(scenario, subject),
            memory=lambda memory: _with_pool(memory, subject.batch_bytes),
        )


def _with_pool(memory: Memory, batch_bytes: int) -> Memory:
    """The memory with inputs at fixed addresses, and with a pool of the graphs' own that other work cannot use."""
    activations = float(memory.levels.activations.max())
    return memory.more("other", Interval(batch_bytes, batch_bytes, batch_bytes + activations))


def _compiling_s(scenario: Scenario, subject: Subject) -> Interval | None:
    """The one-off cost of compiling; None if it is counted already."""
    if scenario.one_off_s is not None:
        return None
    graph = subject.graph_of(Grain.OPERATORS)
    return compiling_s(regions(subject, graph), subject, graph)


def _in_passes(subject: Subject, graph: Graph) -> Indices:
    """The host's tasks in the passes, except other libraries' operators and the tasks that mark steps."""
    chosen = select(graph, kind=_HOST, phase=PASSES)
    foreign = graph.tasks.named(lambda name: operator_class(name) == CostClass.FOREIGN)
    return np.setdiff1d(chosen[~foreign[chosen]], subject.step_marks(graph))


WHATIF = CudaGraphs()
