"""What if worker processes had made the batches of a recording."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from skyline.errors import UsageError
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.whatif.base import Applicability, Basis, Semantics, Stage
from skyline.whatif.fetching import with_workers
from skyline.whatif.traced.base import Changed
from skyline.whatif.traced.facts import has_loader_workers
from skyline.whatif.traced.recording import Recording
from skyline.whatif.whole_number import whole_number

_UNSURE = 0.05
_VALUES = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True)
class NumWorkers:
    """Takes the making of batches off the script's thread."""

    name: str = "num_workers"
    semantics: Semantics = Semantics.EXACT
    stage: Stage = Stage.LOADING

    def title(self, value: str) -> str:
        """What the change does, in a few words."""
        return f"load batches in {value or 'some'} worker process{'es' if value != '1' else ''}"

    def basis(self, recording: Recording) -> Basis:
        """Measured pairs were recorded on GPUs; beside them nothing was held against a measurement."""
        return Basis.GPU_TRACE_PAIR if recording.on_gpu else Basis.MODEL_ONLY

    def detect(self, recording: Recording) -> Applicability:
        """Applicable where the script's own thread makes batches; by default with as many as keep up."""
        if has_loader_workers(recording):
            return Applicability.no("the DataLoader already has workers")
        load_ms = _loading_ms(recording)
        if load_ms <= 0 or not recording.has_steps:
            return Applicability.no("no DataLoader makes batches on the script's thread")
        rest_ms = max(recording.iteration_ms.value - load_ms, 0.01 * load_ms)
        needed = min(16, ceil(load_ms / rest_ms) + 1)
        return Applicability(True, values=tuple(map(str, _VALUES)), default=str(needed))

    def transform(self, changed: Changed, value: str, recording: Recording) -> Changed:
        """Batches come from workers that work ahead."""
        workers = whole_number(self.name, value)
        kineto = replace(recording.kineto, graph=changed.graph)
        try:
            answer = with_workers(recording.trace, kineto, workers)
        except UsageError:
            return changed
        step_ms = recording.iteration_ms.value
        # On a CPU the workers take cores from the computation; how many there are, the trace does not tell.
        load_ms = _loading_ms(recording)
        slower_ms = _UNSURE * step_ms if recording.on_gpu else load_ms
        return changed.to(
            answer.graph,
            below_ms=min(load_ms, _UNSURE * step_ms),
            above_ms=slower_ms,
            assumptions=(
                f"a worker needs as long for a batch as the script does now, {answer.loading_us / 1e3:.1f} ms",
                f"each worker has a core, and {answer.busy_workers:.1f} are busy at a time: no trace tells the cores",
                "taking a batch from a worker costs what it did on another machine",
            ),
        )


def _loading_ms(recording: Recording) -> float:
    """Time per step that the script's thread takes to make batches, in ms."""
    graph = recording.graph
    chosen = select(graph, kind=TaskKind.DATA, lane=recording.kineto.main)
    return float(graph.durations[chosen].sum()) / len(recording.steps_ms) / 1e3


WHATIF = NumWorkers()
