"""Small graphs whose simulation can be worked out on paper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.record import CodeLine, Phase

LATENCY_US = 4.0


def task(name: str, kind: TaskKind, lane: str, **further) -> Task:
    return Task(name, kind, WorkClass.OTHER, lane, Phase.FORWARD, 0, **further)


@pytest.fixture
def pipeline() -> Callable[..., Graph]:
    """Launches of 10 µs, each of a kernel of 30 µs that starts 4 µs after it at the earliest, and a synchronisation.

    Tasks: launch 0, kernel 0, launch 1, kernel 1, …, sync. With two kernels these run from 4 to 34 and from 34 to 64.
    """

    def make(kernels: int = 2) -> Graph:
        tasks: list[Task] = []
        waits: list[Dependency] = []
        for number in range(kernels):
            tasks.append(task("cudaLaunchKernel", TaskKind.LAUNCH, "main", line=number, module=number))
            tasks.append(task(f"sgemm {number}", TaskKind.KERNEL, "stream 7", line=number, module=number))
            waits.append(Dependency(2 * number, 2 * number + 1, Cause.LAUNCH, LATENCY_US, from_start=True))
        tasks.append(task("cudaDeviceSynchronize", TaskKind.SYNC, "main"))
        waits.append(Dependency(2 * kernels - 1, 2 * kernels, Cause.SYNC))
        return Graph(
            Structure(
                tasks,
                waits,
                tuple(f"layers.{number}.linear" for number in range(kernels)),
                tuple(CodeLine("/project/train.py", 10 + number) for number in range(kernels)),
            ),
            [10.0, 30.0] * kernels + [2.0],
        )

    return make


@st.composite
def _graphs(draw, most=12, lanes="abc", gaps=True, lags=True, causes=tuple(Cause)):
    """Graphs whose dependencies point forward; times are whole numbers, so that their sums are exact."""
    count = draw(st.integers(1, most))
    tasks = [
        task(f"t{index}", draw(st.sampled_from(list(TaskKind))), draw(st.sampled_from(lanes)), line=index)
        for index in range(count)
    ]
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=10))
    waits = [
        Dependency(
            source,
            target,
            draw(st.sampled_from(causes)),
            draw(st.integers(0, 3 if lags else 0)) * 1.0,
            draw(st.booleans()),
        )
        for source, target in pairs
        if source < target
    ]
    times = st.integers(0, 20)
    return Graph(
        Structure(tasks, waits),
        [draw(times) for _ in range(count)],
        [draw(st.integers(0, 5 if gaps else 0)) for _ in range(count)],
    )


@pytest.fixture(scope="session")
def graphs():
    """The strategy: ``data.draw(graphs())``."""
    return _graphs
