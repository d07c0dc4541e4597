"""The changes on graphs of real traces: several streams, a full launch queue, threads that take over."""

from __future__ import annotations

import numpy as np
import pytest

from skyline.graph import (
    InsertedGpuWork,
    Phase,
    Task,
    TaskKind,
    WorkClass,
    insert_gpu_work,
    remove,
    replicate,
    scale,
    select,
)
from skyline.simulate.engine import simulate

TRACES = (
    "hta_v100_resnet50_ddp1",
    "hta_gp100_mlp_train",
    "param_dlrm_rank1of8",
    "tracelens_h100_bert_small_fwd",
)
on_traces = pytest.mark.parametrize("published", TRACES, indirect=True)


@pytest.fixture
def graph(published):
    return published.subject.recording.graph


def assert_alike(first, second):
    assert first.tasks.name.tolist() == second.tasks.name.tolist()
    assert np.asarray(simulate(first).starts) == pytest.approx(np.asarray(simulate(second).starts), abs=1e-3)


@on_traces
def test_kernels_inserted_with_their_launches_and_removed_were_never_there(graph):
    stream = graph.tasks.lanes[int(graph.tasks.lane[select(graph, on_gpu=True)[0]])]
    task = Task("inserted here", TaskKind.KERNEL, WorkClass.OTHER, stream, Phase.FORWARD, 0)
    places = select(graph, on_gpu=False, lane="main")[::10]
    grown = insert_gpu_work(graph, [InsertedGpuWork(task, 5.0, after) for after in places.tolist()])
    assert len(grown) == len(graph) + 2 * len(places)
    assert simulate(grown).makespan_us >= simulate(graph).makespan_us
    assert_alike(remove(grown, select(grown, name="inserted here"), keep_gaps=False), graph)


@on_traces
def test_one_round_and_a_factor_of_one_change_nothing(graph):
    assert_alike(replicate(scale(graph, select(graph), 1.0), select(graph), 1), graph)


@on_traces
def test_without_its_gpu_work_a_step_takes_what_the_host_takes(graph):
    host = remove(graph, select(graph, on_gpu=True), launches=True)
    assert len(select(host, on_gpu=True)) == 0
    assert simulate(host).makespan_us < simulate(graph).makespan_us
    free = scale(graph, select(graph, on_gpu=True), 0.0)
    assert simulate(host).makespan_us <= simulate(free).makespan_us * 1.001
