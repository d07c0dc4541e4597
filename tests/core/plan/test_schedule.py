import pytest

from skyline.plan.schedule import (
    StageTime,
    orders,
    pipeline_bound_us,
    pipeline_graph,
    step_us,
    steps_in,
    usable_interleaving,
)
from skyline.plan.strategy import PipelineSchedule
from skyline.simulate.engine import simulate


def makespan(schedule, stages, micro_batches, time, chunks=1, send_us=0.0):
    order = orders(schedule, stages, micro_batches, chunks)
    return simulate(pipeline_graph(order, [time] * stages, send_us, chunks)).makespan_us


@pytest.mark.parametrize("schedule", [PipelineSchedule.GPIPE, PipelineSchedule.ONE_F_ONE_B])
def test_bubble_is_one_pass_for_each_other_stage(schedule):
    # (m + p - 1)(f + b) = (8 + 3) * 3
    time = StageTime(1, 2)
    assert makespan(schedule, 4, 8, time) == pytest.approx(33)
    assert pipeline_bound_us(schedule, [time] * 4, 8, 1, 0) == pytest.approx(33)


def test_interleaving_divides_the_bubble_by_the_chunks():
    # m(f + b) + (p - 1)(f + b) / v = 24 + 9/2, with chunks of half the stage's time
    assert makespan(PipelineSchedule.INTERLEAVED, 4, 8, StageTime(0.5, 1), chunks=2) == pytest.approx(28.5)
    assert pipeline_bound_us(PipelineSchedule.INTERLEAVED, [StageTime(1, 2)] * 4, 8, 2, 0) == pytest.approx(
        28.5
    )


def test_zero_bubble_leaves_a_third_of_the_bubble():
    # With f = b = w the bubble of ZB-H1 is (p - 1)(f + b - w) = 3 where 1F1B has 9.
    time = StageTime(1, 2, 1)
    assert makespan(PipelineSchedule.ZERO_BUBBLE, 4, 8, time) == pytest.approx(24 + 3)
    assert pipeline_bound_us(PipelineSchedule.ZERO_BUBBLE, [time] * 4, 8, 1, 0) == pytest.approx(27)


@pytest.mark.parametrize("schedule", list(PipelineSchedule))
@pytest.mark.parametrize(("stages", "micro_batches"), [(2, 2), (3, 6), (4, 4), (8, 16)])
def test_every_pass_is_there_once(schedule, stages, micro_batches):
    chunks = 2 if schedule is PipelineSchedule.INTERLEAVED else 1
    for slots in orders(schedule, stages, micro_batches, chunks):
        assert len(set(slots)) == len(slots)
        kinds = [slot.kind for slot in slots]
        steps = steps_in(schedule, stages, micro_batches)
        assert kinds.count("F") == kinds.count("B") == steps * micro_batches * chunks
        assert kinds.count("U") == steps
    assert makespan(schedule, stages, micro_batches, StageTime(1, 2, 1), chunks) > 0


def asynchronous_step(stages, micro_batches, send_us=0.0, update_us=0.0):
    order = orders(PipelineSchedule.ASYNCHRONOUS, stages, micro_batches)
    graph = pipeline_graph(order, [StageTime(1, 2)] * stages, send_us, optimizer_us=update_us)
    return step_us(simulate(graph))


def test_two_stages_without_flushes_by_hand():
    """The first of two stages has two micro-batches ahead: F0 F1, B0, F2, B1, and so on with an update after each B."""
    first, last = orders(PipelineSchedule.ASYNCHRONOUS, 2, 1)
    named = [[f"{slot.kind}{slot.micro_batch}" for slot in slots] for slots in (first, last)]
    assert named[0][:8] == ["F0", "F1", "B0", "U0", "F2", "B1", "U1", "F3"]
    assert named[1][:6] == ["F0", "B0", "U0", "F1", "B1", "U1"]


@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 1), (4, 8), (3, 6), (2, 2)])
def test_without_flushes_there_is_no_bubble(stages, micro_batches):
    # Each stage computes all the time: m (f + b) and one update. 1F1B has (p - 1)(f + b) more.
    assert asynchronous_step(stages, micro_batches, update_us=0.5) == pytest.approx(3 * micro_batches + 0.5)
    time = StageTime(1, 2)
    assert pipeline_bound_us(
        PipelineSchedule.ASYNCHRONOUS, [time] * stages, micro_batches, 1, 0, 0.5
    ) == pytest.approx(3 * micro_batches + 0.5)
    flushed = pipeline_bound_us(PipelineSchedule.ONE_F_ONE_B, [time] * stages, micro_batches, 1, 0, 0.5)
    assert flushed == pytest.approx(3 * (micro_batches + stages - 1) + 0.5)


@pytest.mark.parametrize("update_us", [0.0, 0.3, 2.0])
@pytest.mark.parametrize(("stages", "micro_batches"), [(4, 1), (4, 4), (4, 8), (8, 1), (3, 6)])
def test_messages_are_waited_for_while_a_micro_batch_goes_around(stages, micro_batches, update_us):
    # With 4 stages and messages of 0.5 a micro-batch is away for 12 + 6 * 0.5, while four are under way: 3.75 each.
    time = StageTime(1, 2)
    closed = pipeline_bound_us(
        PipelineSchedule.ASYNCHRONOUS, [time] * stages, micro_batches, 1, 0.5, update_us
    )
    assert asynchronous_step(stages, micro_batches, 0.5, update_us) == pytest.approx(closed)
    if (stages, micro_batches, update_us) == (4, 1, 0.0):
        assert closed == pytest.approx(3.75)


def test_a_message_delays_each_stage():
    # Two stages, one micro-batch: forward, message, forward, backward, message, backward.
    assert makespan(PipelineSchedule.ONE_F_ONE_B, 2, 1, StageTime(1, 2), send_us=5) == pytest.approx(
        1 + 5 + 1 + 2 + 5 + 2
    )


def test_interleaving_takes_whole_groups():
    assert usable_interleaving(4, 8, 32, 2)
    assert not usable_interleaving(4, 6, 32, 2)
    assert not usable_interleaving(4, 8, 6, 2)


def test_each_stage_ends_with_its_exchange_and_its_update():
    # Two stages of one micro-batch: the last stage is through at 1 + 1 + 2 = 4, the first at 6, and then 3 + 4 more.
    order = orders(PipelineSchedule.ONE_F_ONE_B, 2, 1)
    graph = pipeline_graph(order, [StageTime(1, 2)] * 2, 0.0, exchange_us=3, optimizer_us=4)
    timeline = simulate(graph)
    ends = dict(zip([(task.lane, task.name) for task in graph.tasks], timeline.ends.tolist(), strict=True))
    assert ends["stage 1", "exchange gradients"] == 4 + 3
    assert ends["stage 1", "optimizer"] == 4 + 3 + 4
    assert ends["stage 0", "optimizer"] == timeline.makespan_us == 6 + 3 + 4
