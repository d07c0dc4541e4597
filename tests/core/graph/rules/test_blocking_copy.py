from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.from_kineto import built
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.simulate.engine import simulate


def test_a_copy_to_pageable_memory_holds_its_caller_until_it_is_done(traced, events) -> None:
    recorded = built(
        traced(
            events.launch(0, 4, 1),
            events.op("aten::item", 5, 100),
            events.call("cudaMemcpyAsync", 10, 92, 2),
            events.kernel(8, 70, 1),
            events.copy("DtoH (Device -> Pageable)", 80, 20, 2),
        )
    )
    assert recorded.found["copies that block their caller"] == 1
    assert simulate(recorded.graph).makespan_us == pytest.approx(105, abs=5)
    faster = scale(recorded.graph, select(recorded.graph, kind=TaskKind.KERNEL), 0.0)
    # The call at 10, the latency of 8, the copy, and what the operator does after it.
    assert simulate(faster).makespan_us == 10 + 8 + 20 + 5


def test_a_copy_from_pageable_memory_holds_its_caller_until_it_is_staged(traced, events) -> None:
    recorded = built(
        traced(
            events.op("aten::to", 0, 60),
            events.call("cudaMemcpyAsync", 10, 40, 2),
            events.copy("HtoD (Pageable -> Device)", 30, 25, 2, size=1000),
        )
    )
    edges = recorded.graph.structure.dependencies
    staged = np.flatnonzero(edges.from_start & (recorded.graph.tasks.kind[edges.source] == 5))
    assert len(staged) == 1
    # 20 µs of staging, then 20 µs of the call at the same time as the copy, then the rest of the operator.
    assert simulate(recorded.graph).makespan_us == 60


def test_a_copy_from_pinned_memory_holds_nobody(traced, events) -> None:
    recorded = built(
        traced(
            events.call("cudaMemcpyAsync", 10, 8, 2),
            events.op("aten::relu", 20, 5),
            events.copy("HtoD (Pinned -> Device)", 16, 400, 2),
        )
    )
    assert recorded.found["copies that block their caller"] == 0
