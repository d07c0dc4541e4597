"""What if the script read values of tensors rarely, or never, within a step."""

from __future__ import annotations

import sys

import numpy as np

from skyline.graph.column import Flags, Ids, Indices
from skyline.graph.dependency import CAUSE, Cause
from skyline.graph.graph import Graph, cut_dependencies, scale
from skyline.graph.launching import ending_waits, launches
from skyline.graph.python_frames import file_of, frames, in_library, innermost
from skyline.graph.selection import select
from skyline.graph.task import KIND, ON_GPU, TaskKind
from skyline.lazy_dataclass import dataclass
from skyline.trace.kineto.profiler_trace import ProfilerTrace
from skyline.whatif.base import Applicability, Grain, Scenario, Stage, Subject, UsualWhatIf
from skyline.whatif.catalogue.host.reading import READS, ReadingLine, reading_lines, total_ms
from skyline.whatif.constant import Constant
from skyline.whatif.question import whole_number

_MAY_STAY = 0.5
"""Share of the gain that may be lost again to reading the same values elsewhere."""
_EVERY = "10"
_WORTH_ASKING = 0.002
_LINES_NAMED = 3
_DECIDING = frozenset(
    f"aten::{name}"
    for name in (
        *("nonzero", "argwhere", "masked_select", "unique_dim", "_unique", "_unique2", "unique_consecutive"),
        *("bincount", "repeat_interleave", "is_nonzero", "equal", "allclose"),
    )
)
"""PyTorch's operators with the tags ``dynamic_output_shape`` and ``data_dependent_output``
(``native_functions.yaml``), except for reading one number, whose use is up to the script."""
_CALLED_WITHIN = Constant.at(
    3, "operators up to its wait: ``is_nonzero`` calls ``item``, which calls ``_local_scalar_dense``"
)
_PASSED_THROUGH = ("torch/_tensor", "torch/cuda/", "torch/utils/_contextlib", "torch/_ops")
ALL = "all"


@dataclass(frozen=True, slots=True)
class RemoveSync(UsualWhatIf):
    """Removes the reading of numbers from tensors: the host's time for it, and its wait for a GPU."""

    name: str = "remove_sync"
    stage: Stage = Stage.WAITING

    def title(self, value: str) -> str:
        """The change in a few words."""
        if value in ("", ALL):
            return "no waiting for the GPU within a step (.item(), synchronize(), copies to the host)"
        return f"read numbers of tensors, and log, only every {value}th iteration"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable if the script's thread waits for the GPU in the counted steps, or spends time on reading."""
        graph = subject.graph_of(self.grain)
        waiting = own_waits(subject, graph) if subject.on_gpu else ()
        if subject.profile is None:
            if not subject.on_gpu:
                return Applicability.no("nothing ran on a GPU")
            return Applicability(True) if len(waiting) else Applicability.no(_NO_WAIT)
        lines = reading_lines(subject, graph)
        costs = total_ms(lines, subject.steps) >= _WORTH_ASKING * subject.iteration_ms.value
        if len(waiting) or costs:
            return Applicability(True, values=(_EVERY, "100", ALL), default=_EVERY)
        if subject.on_gpu:
            return Applicability.no(_NO_WAIT)
        if not lines:
            return Applicability.no("nothing ran on a GPU, and no line reads numbers of tensors")
        share = total_ms(lines, subject.steps) / subject.iteration_ms.value
        return Applicability.no(f"reading numbers of tensors takes {share:.2%} of the iteration only")

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Let the host continue where it waited; the simulation shows how far ahead it gets."""
        every = _every(value)
        graph = scenario.graph
        lines = reading_lines(subject, graph)
        waiting = _avoidable(subject, graph)
        free = cut_dependencies(graph, cause=Cause.SYNC, target=waiting) if len(waiting) else graph
        chosen = np.unique(np.concatenate([one.tasks for one in lines])) if lines else np.empty(0, np.int64)
        free = scale(free, chosen, 0.0, gaps=True)
        now_ms = subject.step_ms(graph)
        gain_ms = max(0.0, now_ms - subject.step_ms(free))
        return scenario.changed(
            _with_delay(free, subject, gain_ms / every) if every else free,
            above_ms=_MAY_STAY * gain_ms,
            assumptions=_assumptions(subject, lines, every),
        )


_NO_WAIT = "the script does not wait for the GPU within a step"


def _every(value: str) -> int:
    """The number of iterations between reads of numbers; 0 for no reads."""
    if value in ("", ALL):
        return 0
    return whole_number("remove_sync", value)


def _with_delay(graph: Graph, subject: Subject, delay_ms: float) -> Graph:
    """The graph with the reads of one of several iterations spread over all, at the end of each iteration.

    A stream that the script waited for is idle after the wait until the script's thread launches new work.
    """
    tasks = graph.tasks
    gaps = graph.gaps.copy()
    streams: list[int] = np.unique(tasks.lane[ON_GPU[tasks.kind]]).tolist()
    for lane in (tasks.lane_code(subject.lane), *streams):
        own = np.flatnonzero(tasks.lane == lane)
        last = [
            own[tasks.iteration[own] == one][-1]
            for one in graph.iterations
            if (tasks.iteration[own] == one).any()
        ]
        gaps[np.array(last, np.int64)] += delay_ms * 1e3
    return graph.with_times(gaps=gaps)


def _assumptions(subject: Subject, lines: tuple[ReadingLine, ...], every: int) -> tuple[str, ...]:
    recorded = own_waits(subject, subject.graph_of(Grain.OPERATORS))
    count = f"{_times(subject.graph_of(Grain.OPERATORS), recorded) / max(1, subject.count):.3g}"
    said: list[str] = []
    if len(recorded):
        said.append(f"the values that the script waits for ({count} times a step) are needed later or never")
    said += [one.words(subject.steps) for one in lines[:_LINES_NAMED]]
    if every:
        said.append(f"these lines run in every {every}th iteration only, and then cost the same")
    return tuple(said)


def waits(graph: Graph, lane: str) -> Indices:
    """The tasks of the lane that wait for GPU work other than copies from the host."""
    tasks, edges = graph.tasks, graph.structure.dependencies
    from_host = np.zeros(len(graph), np.bool_)
    from_host[select(graph, kind=TaskKind.COPY, name=("HtoD", "HostToDevice"))] = True
    waiting = (
        (edges.cause == CAUSE[Cause.SYNC])
        & ON_GPU[tasks.kind[edges.source]]
        & ~((tasks.kind[edges.source] == KIND[TaskKind.COPY]) & from_host[edges.source])
        & (tasks.lane[edges.target] == tasks.lane_code(lane))
    )
    return np.unique(edges.target[waiting]).astype(np.int64)


def own_waits(subject: Subject, graph: Graph) -> Indices:
    """The script's own waits in the recorded graph; in a trace, without the wait that stops the profiler."""
    found = _avoidable(subject, graph)
    return found[subject.counted(found)]


def _avoidable(subject: Subject, graph: Graph) -> Indices:
    """The avoidable waits: not those that decide sizes or control flow, and not those of libraries.

    The wait at the end of a timed iteration belongs to the profiler.
    """
    found = waits(graph, subject.lane)
    found = found[~_deciding(graph, subject.lane, found) & ~_of_libraries(subject, graph, found)]
    if subject.recording is not None:
        return found
    return np.setdiff1d(found, ending_waits(graph, subject.lane))


def _deciding(graph: Graph, lane: str, waiting: Indices) -> Flags:
    """Flags of waits in operators that choose a branch, or whose result sizes depend on values."""
    tasks = graph.tasks
    operators = np.flatnonzero((tasks.lane == tasks.lane_code(lane)) & (tasks.kind == KIND[TaskKind.CPU]))
    deciding = tasks.named(_DECIDING.__contains__)[operators]
    # A deciding operator comes before the operators that it calls, such as the copy of one number to the
    # host.
    last = np.searchsorted(operators, waiting)
    return np.array(
        [deciding[max(0, place - int(_CALLED_WITHIN.value)) : place].any() for place in last], np.bool_
    )


def _of_libraries(subject: Subject, graph: Graph, waiting: Indices) -> Flags:
    """Flags of waits that only a library causes, by the lines of a profile or the Python functions of a trace."""
    if subject.recording is not None:
        return _called_by_libraries(subject.recording.trace, graph.tasks.origin[waiting])
    profile = subject.profile
    told = () if profile is None else [call for call in profile.calls if call.name in (*READS, "bool")]
    lines = [
        {(call.line.file, call.line.line) for call in told if call.line and ("via" in call.options) == via}
        for via in (True, False)
    ]
    theirs = lines[0] - lines[1]
    rows = [row for row, one in enumerate(graph.structure.lines) if (one.file, one.line) in theirs]
    return np.isin(graph.tasks.line[waiting], rows)


def _called_by_libraries(trace: ProfilerTrace, rows: Ids) -> Flags:
    """Flags of calls whose innermost Python function belongs to a library; none if no functions were recorded."""
    found = np.zeros(len(rows), np.bool_)
    known = np.flatnonzero(rows >= 0)
    callers = innermost(trace, frames(trace, lambda file: not _passes_on(file)), rows[known].astype(np.int64))
    found[known] = [row >= 0 and in_library(file_of(trace.name_of(row))) for row in callers.tolist()]
    return found


def _passes_on(file: str) -> bool:
    """True for files that a call of the script passes through: methods of tensors, logging, `torch.cuda`."""
    return (
        file.startswith(_PASSED_THROUGH)
        or file.split("/", 1)[0].removesuffix(".py") in sys.stdlib_module_names
    )


def _times(graph: Graph, waiting: Indices) -> int:
    """The number of waits; a copy and the wait for its stream count as one if no kernel is launched between them."""
    launched = launches(graph)
    kernels = launched.source[graph.tasks.kind[launched.target] == KIND[TaskKind.KERNEL]]
    return len(np.unique(np.searchsorted(np.unique(kernels), waiting)))


WHATIF = RemoveSync()
