"""What if batches were copied to the GPU from pinned memory, without blocking the script."""

from __future__ import annotations

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.graph import Graph, cut_dependencies
from skyline.graph.launching import launches
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.whatif.base import Applicability, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.loader_setting import training_loader
from skyline.whatif.subject import bytes_moved

_PINNED_BYTES_PER_US = 12_000.0
"""The rate over PCI Express 3 with sixteen lanes; faster links make copies even shorter."""
_CALL_US = 10.0
"""Time of a call that only hands a copy over and returns."""


@dataclass(frozen=True, slots=True)
class PinMemory(UsualWhatIf):
    """Removes the host's waits for copies from pageable memory, and shortens these copies."""

    name: str = "pin_memory"
    words: str = "copy batches from pinned memory (pin_memory=True, non_blocking=True)"
    stage: Stage = Stage.WAITING

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if copies from pageable memory block the script."""
        if not subject.on_gpu:
            return Applicability.no("nothing ran on a GPU")
        if subject.profile is not None:
            loader = training_loader(subject)
            if loader is None:
                return Applicability.no("no DataLoader delivers the batches")
            if loader.pin_memory and _never_waits(subject):
                return Applicability.no("batches are already pinned, and copied without waiting")
        graph = subject.graph_of(self.grain)
        copies = _pageable(graph)
        if not len(copies):
            return Applicability.no("no copy to the GPU comes from pageable memory")
        if not _held(graph, copies).any():
            return Applicability.no("no copy to the GPU blocks the script")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Let the calls return at once; copies take the time of their bytes on the bus, and never longer than now."""
        graph = scenario.graph
        copies = _pageable(graph)
        edges = graph.structure.dependencies
        durations = graph.durations.copy()
        if subject.profile is not None:
            # The call blocked until the work queued before the copy was done.
            calls = _calls(graph, copies)
            durations[calls] = np.minimum(durations[calls], _CALL_US)
        # After the copy let the call continue, the call staged the rest of the data.
        for point in edges.target[_held(graph, copies)].tolist():
            rest = int(graph.structure.after[point])
            if rest >= 0 and graph.tasks.origin[rest] == graph.tasks.origin[point]:
                durations[rest] = 0.0
        over_bus = bytes_moved(subject, graph, copies) / _PINNED_BYTES_PER_US
        # A predicted copy has the rate of the GPU's link, from any kind of memory.
        known = (over_bus > 0) & (subject.recording is not None)
        sooner = durations.copy()
        sooner[copies[known]] = np.minimum(durations[copies[known]], over_bus[known])
        free = cut_dependencies(graph, cause=Cause.SYNC, source=copies)
        likely, most = free.with_times(durations=sooner), free.with_times(durations=durations)
        return scenario.between(
            subject,
            likely,
            likely,
            most,
            assumptions=(
                "a separate thread pins the batches fast enough",
                *(("the bus carries 12 GB/s",) if known.any() else ()),
                *(("an iteration copies only its batch to the GPU",) if subject.profile else ()),
            ),
        )


def _pageable(graph: Graph) -> Indices:
    """The copies to the GPU that are not known to come from pinned memory; in a prediction, all of them."""
    copies = select(graph, kind=TaskKind.COPY, name=("HtoD", "HostToDevice"))
    return copies[~np.isin(copies, select(graph, kind=TaskKind.COPY, name="Pinned"))]


def _calls(graph: Graph, copies: Indices) -> Indices:
    """The calls that started these copies."""
    found = launches(graph)
    return found.source[np.isin(found.target, copies)].astype(np.int64)


def _never_waits(baseline: Subject) -> bool:
    """True if every recorded move to the GPU is ``non_blocking``."""
    moves = [call for call in baseline.script.calls if call.name in ("to", "cuda")]
    return bool(moves) and all(call.options.get("non_blocking") is True for call in moves)


def _held(graph: Graph, copies: Indices) -> Flags:
    """The dependencies of the host on these copies."""
    edges = graph.structure.dependencies
    chosen = np.zeros(len(graph), np.bool_)
    chosen[copies] = True
    return (edges.cause == CAUSE[Cause.SYNC]) & chosen[edges.source]


WHATIF = PinMemory()
