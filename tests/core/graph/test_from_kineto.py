from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.from_kineto import KinetoGraph, built
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.simulate.engine import simulate
from skyline.trace.kineto.reader import read
from skyline.whatif.cost.fetching import with_workers

CPU_BOUND = ("kineto_2101_resnet50_workers0", "tracelens_h100_vit_nsfw_fwd", "hta_gp100_mlp_train")
GPU_BOUND = ("hta_v100_resnet50_ddp1", "deepview_rtx3060ti_resnet50_run1", "hta_a100_rank0of16_recsys")
WITHOUT_STEPS = "hta_a100_inference_alexnet"


@pytest.fixture
def recorded(published) -> KinetoGraph:
    return published.subject.recording.kineto


def steps_us(recorded, graph):
    return recorded.steps.simulated_us(np.asarray(simulate(graph).starts))


def test_every_trace_replays_its_steps(published, recorded) -> None:
    if published.name == WITHOUT_STEPS:
        assert len(recorded.steps) == 0
    else:
        assert abs(steps_us(recorded, recorded.graph) / recorded.steps.measured_us - 1).max() < 0.01


def test_every_dependency_points_forward(recorded) -> None:
    edges = recorded.graph.structure.dependencies
    assert bool((edges.source < edges.target).all())
    assert recorded.found["dependencies that the measured times contradict"] == 0


@pytest.mark.parametrize("published", CPU_BOUND, indirect=True)
def test_quicker_kernels_do_nothing_for_a_step_that_the_cpu_bounds(recorded) -> None:
    gpu, cpu = select(recorded.graph, on_gpu=True), select(recorded.graph, on_gpu=False)
    now = np.median(steps_us(recorded, recorded.graph))
    assert np.median(steps_us(recorded, scale(recorded.graph, gpu, 0.5))) > 0.99 * now
    assert np.median(steps_us(recorded, scale(recorded.graph, cpu, 0.5, gaps=True))) < 0.8 * now


@pytest.mark.parametrize("published", GPU_BOUND, indirect=True)
def test_a_quicker_cpu_does_nothing_for_a_step_that_the_gpu_bounds(recorded) -> None:
    gpu, cpu = select(recorded.graph, on_gpu=True), select(recorded.graph, on_gpu=False)
    now = np.median(steps_us(recorded, recorded.graph))
    assert np.median(steps_us(recorded, scale(recorded.graph, gpu, 0.5))) < 0.6 * now
    assert np.median(steps_us(recorded, scale(recorded.graph, cpu, 0.5, gaps=True))) > 0.98 * now


@pytest.mark.parametrize("published", ["kineto_2101_resnet50_workers0"], indirect=True)
def test_the_measured_gain_of_loader_workers_is_foreseen(published, recorded) -> None:
    after = built(read(published.path.with_name("kineto_2101_resnet50_workers4.json.gz")))
    answer = with_workers(published.trace, recorded, 4)
    measured = np.median(after.steps.measured_us[after.steps.inner])
    assert np.median(answer.step_us[recorded.steps.inner]) == pytest.approx(measured, rel=0.05)
