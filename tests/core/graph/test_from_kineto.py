from __future__ import annotations

import numpy as np
import pytest

from skyline.graph.from_kineto import built
from skyline.graph.graph import scale
from skyline.graph.selection import select
from skyline.simulate.engine import simulate
from skyline.trace.kineto.reader import read
from skyline.whatif.cost.fetching import with_workers

CPU_BOUND = ("kineto_2101_resnet50_workers0", "tracelens_h100_vit_nsfw_fwd", "hta_gp100_mlp_train")
GPU_BOUND = ("hta_v100_resnet50_ddp1", "deepview_rtx3060ti_resnet50_run1", "hta_a100_rank0of16_recsys")


@pytest.fixture(scope="module")
def recorded(shared_data):
    folder = shared_data / "traces"
    paths = sorted(folder.glob("*.json.gz"))
    if not paths:
        pytest.skip(f"no traces in {folder}")
    return {path.name.removesuffix(".json.gz"): built(read(path)) for path in paths}


def steps_us(recorded, graph):
    return recorded.steps.simulated_us(np.asarray(simulate(graph).starts))


def test_every_trace_replays_its_steps(recorded) -> None:
    errors = {
        name: abs(steps_us(one, one.graph) / one.steps.measured_us - 1).max()
        for name, one in recorded.items()
        if len(one.steps)
    }
    assert len(errors) >= 16
    assert max(errors.values()) < 0.01, errors


def test_every_dependency_points_forward(recorded) -> None:
    for one in recorded.values():
        edges = one.graph.structure.dependencies
        assert bool((edges.source < edges.target).all())
        assert one.found["dependencies that the measured times contradict"] == 0


@pytest.mark.parametrize("name", CPU_BOUND)
def test_quicker_kernels_do_nothing_for_a_step_that_the_cpu_bounds(recorded, name) -> None:
    one = recorded[name]
    gpu, cpu = select(one.graph, on_gpu=True), select(one.graph, on_gpu=False)
    now = np.median(steps_us(one, one.graph))
    assert np.median(steps_us(one, scale(one.graph, gpu, 0.5))) > 0.99 * now
    assert np.median(steps_us(one, scale(one.graph, cpu, 0.5, gaps=True))) < 0.8 * now


@pytest.mark.parametrize("name", GPU_BOUND)
def test_a_quicker_cpu_does_nothing_for_a_step_that_the_gpu_bounds(recorded, name) -> None:
    one = recorded[name]
    gpu, cpu = select(one.graph, on_gpu=True), select(one.graph, on_gpu=False)
    now = np.median(steps_us(one, one.graph))
    assert np.median(steps_us(one, scale(one.graph, gpu, 0.5))) < 0.6 * now
    assert np.median(steps_us(one, scale(one.graph, cpu, 0.5, gaps=True))) > 0.98 * now


def test_the_measured_gain_of_loader_workers_is_foreseen(shared_data, recorded) -> None:
    name = "kineto_2101_resnet50_workers0"
    before, after = recorded[name], recorded["kineto_2101_resnet50_workers4"]
    answer = with_workers(read(shared_data / "traces" / f"{name}.json.gz"), before, 4)
    measured = np.median(after.steps.measured_us[after.steps.inner])
    assert np.median(answer.step_us[before.steps.inner]) == pytest.approx(measured, rel=0.05)
