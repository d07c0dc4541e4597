import pytest

from skyline.graph.graph import Cause, Dependency, Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.simulate.billing import billed_phases, billed_us
from skyline.simulate.engine import simulate
from skyline.trace.phase import Phase


def task(name: str, kind: TaskKind, lane: str, phase: Phase) -> Task:
    return Task(name, kind, WorkClass.OTHER, lane, phase, 0)


def test_without_a_gpu_it_is_the_time_of_the_lane(chain):
    timeline = simulate(chain(("main", 5.0), ("main", 3.0), ("worker", 9.0), gaps={0: 2.0}))
    assert billed_us(timeline, "main") == pytest.approx((7.0, 3.0, 0.0))


def test_moments_of_the_gpu_are_its_own_and_the_host_gets_the_rest():
    """The host launches from 0 to 10 and from 10 to 20; the kernels run from 5 to 15 and from 15 to 40."""
    tasks = (
        task("launch", TaskKind.LAUNCH, "main", Phase.FORWARD),
        task("first", TaskKind.KERNEL, "gpu", Phase.FORWARD),
        task("launch", TaskKind.LAUNCH, "main", Phase.BACKWARD),
        task("second", TaskKind.KERNEL, "gpu", Phase.BACKWARD),
        task("wait", TaskKind.SYNC, "main", Phase.OTHER),
    )
    waits = (
        Dependency(0, 1, Cause.LAUNCH, 5.0, from_start=True),
        Dependency(2, 3, Cause.LAUNCH, 5.0, from_start=True),
        Dependency(3, 4, Cause.SYNC),
    )
    timeline = simulate(Graph(Structure(tasks, waits), (10.0, 10.0, 10.0, 25.0, 2.0), (0.0,) * 5))
    billed = billed_us(timeline, "main")
    assert billed == pytest.approx((5.0, 10.0, 0.0, 25.0, 2.0))
    assert sum(billed) == pytest.approx(timeline.makespan_us)
    phases = billed_phases(timeline, billed)
    assert (phases.forward, phases.backward, phases.other) == pytest.approx((0.015, 0.025, 0.002))


def test_kernels_that_run_at_once_are_billed_once():
    tasks = tuple(task(lane, TaskKind.KERNEL, lane, Phase.FORWARD) for lane in ("a", "b"))
    timeline = simulate(Graph(Structure(tasks), (10.0, 15.0), (0.0, 0.0)))
    assert billed_us(timeline, "main") == pytest.approx((10.0, 5.0))
