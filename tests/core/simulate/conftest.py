"""Random small graphs for properties; every number is a multiple of one, so that sums are exact."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from skyline.compiled import Way, run_loops
from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.trace.record import Phase


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the tests of compiled loops in one worker, which compiles each loop once."""
    for item in items:
        call = getattr(item, "callspec", None)
        if call is not None and call.params.get("way") is Way.COMPILED:
            item.add_marker(pytest.mark.xdist_group("numba"))


@st.composite
def _graphs(draw, most=12, lanes="abc", backward=False):
    count = draw(st.integers(1, most))
    tasks = tuple(
        Task(
            draw(st.sampled_from(["mm", "add", "copy"])),
            draw(st.sampled_from(list(TaskKind))),
            WorkClass.OTHER,
            draw(st.sampled_from(lanes)),
            draw(st.sampled_from([Phase.FORWARD, Phase.DATA, Phase.COMMUNICATION])),
            draw(st.integers(0, 1)),
        )
        for _ in range(count)
    )
    durations = [draw(st.integers(0, 20)) * 1.0 for _ in range(count)]
    gaps = [draw(st.integers(0, 5)) * 1.0 for _ in range(count)]
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=10))
    waits = [
        Dependency(
            a, b, draw(st.sampled_from(list(Cause))), draw(st.integers(0, 3)) * 1.0, draw(st.booleans())
        )
        for a, b in pairs
        if a < b or (backward and a != b)
    ]
    return Graph(Structure(tasks, waits), durations, gaps)


@pytest.fixture(scope="session")
def graphs():
    """The strategy: ``data.draw(graphs())``."""
    return _graphs


@pytest.fixture(scope="module", params=[Way.AS_WRITTEN, Way.COMPILED], ids=["python", "numba"])
def way(request):
    """Every test that asks for it runs both ways, each with half of the usual number of examples."""
    if request.param is Way.COMPILED:
        pytest.importorskip("numba")
    with run_loops(request.param):
        yield request.param
