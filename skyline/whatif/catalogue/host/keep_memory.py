"""What if the C library kept large blocks instead of returning them to the system."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from skyline.graph.column import Flags, Indices
from skyline.graph.graph import Graph
from skyline.graph.task import KIND, PHASE, TaskKind
from skyline.interval import Interval
from skyline.memory.growth import LARGE_BYTES
from skyline.trace.profile import Profile
from skyline.whatif.base import Applicability, Scenario, Subject, UsualWhatIf
from skyline.whatif.constant import Constant

VARIABLES = "MALLOC_TRIM_THRESHOLD_=1099511627776 MALLOC_MMAP_MAX_=0"
"""They make glibc keep what is given back to it (``mallopt(3)``)."""
_WORTH_ASKING = Constant.at(0.01, "the share of an iteration below which no change is worth asking for")
_MOST_OF_A_TASK = Constant.at(
    0.9, "an assumption: an operator computes, too; the most that getting memory takes"
)
_LIKELY = Constant.at(
    0.5,
    "as for other batch sizes (``BatchCurve``): between no block and all; memory of libraries is not recorded",
)


@dataclass(frozen=True, slots=True)
class KeepMemory(UsualWhatIf):
    """Takes the cost of getting blocks above 32 MiB from the operators that ask for them.

    The cost of a byte was measured in the script's own process, the blocks are those of the recorded iteration.
    """

    name: str = "keep_memory"
    words: str = "let the C library keep large blocks of memory (environment variables)"

    def detect(self, subject: Subject) -> Applicability:
        """Applicable to CPUs under glibc, where the recorded blocks cost a hundredth of the iteration at least."""
        profile = subject.script
        if not subject.ran_on_cpu:
            return Applicability.no("only memory of a CPU comes from the C library")
        if not profile.environment.platform.lower().startswith("linux"):
            return Applicability.no("only the C library of Linux is known to return large blocks")
        if profile.large_block_us_per_mb <= 0:
            return Applicability.no(
                "a new large block took no longer than a used one: the library keeps them already"
            )
        cost_ms = sum(_cost_us(profile).values()) / 1e3
        if not cost_ms:
            return Applicability.no("no block above 32 MiB was allocated in the recorded iteration")
        if cost_ms < _WORTH_ASKING.value * subject.iteration_ms.value:
            return Applicability.no("allocating large blocks takes less than 1 % of the iteration")
        return Applicability(True)

    def transform(self, scenario: Scenario, value: str, subject: Subject) -> Scenario:
        """Shorten the operators; the peak grows by what is kept between them, at worst by the largest block."""
        profile = subject.script
        larger = scenario.batch_factor(subject)
        graph = scenario.graph
        likely, least, most = (
            _kept(subject, graph, larger * part) for part in (_LIKELY.value, 1.0, 0.0)
        )  # fmt: skip
        largest = max((one.size_bytes for one in profile.trace.allocations), default=0)
        return scenario.between(
            subject,
            likely,
            least,
            most,
            assumptions=(
                f"started with {VARIABLES}",
                "libraries hold memory in which some of the blocks find room already",
            ),
            memory=lambda memory: memory.more("other", Interval(0.0, 0.0, larger * largest)),
        )


def _cost_us(profile: Profile) -> dict[int, float]:
    """By row of the recording, the cost of the large blocks that were taken meanwhile."""
    trace = profile.trace
    if not trace.iterations:
        return {}
    last = trace.iterations[-1].index
    rows = [row for row, record in enumerate(trace.records) if record.iteration == last]
    rows.sort(key=lambda row: trace.records[row].start_us)
    starts = [trace.records[row].start_us for row in rows]
    found: dict[int, float] = defaultdict(float)
    for one in trace.allocations:
        if one.size_bytes > LARGE_BYTES and rows:
            place = max(0, int(np.searchsorted(starts, one.time_us, side="right")) - 1)
            found[rows[place]] += profile.large_block_us_per_mb * one.size_bytes / 1e6
    return dict(found)


def _kept(subject: Subject, graph: Graph, part: float) -> Graph:
    """The graph with so large a part of the cost taken from the operators of each iteration that bear it."""
    if not part:
        return graph
    durations = graph.durations.copy()
    for row, cost_us in _cost_us(subject.script).items():
        for tasks in _alike(subject, graph, row):
            whole = float(durations[tasks].sum())
            if whole > 0:
                durations[tasks] *= 1 - min(_MOST_OF_A_TASK.value, part * cost_us / whole)
    return graph.with_times(durations=durations)


def _alike(subject: Subject, graph: Graph, row: int) -> list[Indices]:
    """Per iteration the tasks of the same name, phase and line as a row: blocks were recorded in one iteration only."""
    record = subject.script.trace.records[row]
    tasks = graph.tasks
    named: Flags = np.array([name == record.name for name in tasks.names], np.bool_)
    alike = (
        named[tasks.name]
        & (tasks.line == record.line)
        & (tasks.kind == KIND[TaskKind.CPU])
        & (tasks.phase == PHASE[record.phase])
    )
    return [np.flatnonzero(alike & (tasks.iteration == iteration)) for iteration in graph.iterations]


WHATIF = KeepMemory()
