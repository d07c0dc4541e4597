"""Pipelines: the order of micro-batches on each stage, and the time of this order from the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from skyline.graph.dependency import Cause, Dependency
from skyline.graph.graph import Graph, Structure
from skyline.graph.task import Task, TaskKind, WorkClass
from skyline.lazy_dataclass import dataclass
from skyline.plan.strategy import PipelineSchedule
from skyline.simulate.engine import Timeline, step_ms
from skyline.trace.record import Phase

FORWARD, BACKWARD, WEIGHTS, UPDATE = "F", "B", "W", "U"
_PHASES = {FORWARD: Phase.FORWARD, BACKWARD: Phase.BACKWARD, WEIGHTS: Phase.BACKWARD}


@dataclass(frozen=True, slots=True)
class Slot:
    """One pass of a micro-batch through one chunk of a stage, or an update with the number of its step."""

    kind: str
    micro_batch: int
    chunk: int = 0


@dataclass(frozen=True, slots=True)
class StageTime:
    """Times of one chunk in µs. ``weights_us`` is the part of the backward pass for gradients of weights."""

    forward_us: float
    backward_us: float
    weights_us: float = 0.0

    @property
    def both_us(self) -> float:
        """Forward and backward pass."""
        return self.forward_us + self.backward_us

    def part(self, chunks: int) -> StageTime:
        """One of equal chunks of a stage with these times."""
        return StageTime(self.forward_us / chunks, self.backward_us / chunks, self.weights_us / chunks)


def steps_in(schedule: PipelineSchedule, stages: int, micro_batches: int) -> int:
    """Number of steps in ``orders``: one, or without flushes twice the number that fills the pipeline."""
    return 1 if schedule.flushes else 2 * ceil(stages / micro_batches)


def orders(schedule: PipelineSchedule, stages: int, micro_batches: int, chunks: int = 1) -> list[list[Slot]]:
    """The order of slots on each stage. A step ends with its update."""
    if schedule is PipelineSchedule.ASYNCHRONOUS:
        return [_asynchronous(stage, stages, micro_batches) for stage in range(stages)]
    return [[*slots, Slot(UPDATE, 0)] for slots in _flushed(schedule, stages, micro_batches, chunks)]


def _flushed(schedule: PipelineSchedule, stages: int, micro_batches: int, chunks: int) -> list[list[Slot]]:
    if schedule is PipelineSchedule.GPIPE:
        ahead = [Slot(FORWARD, one) for one in range(micro_batches)]
        return [[*ahead, *(Slot(BACKWARD, one) for one in range(micro_batches))] for _ in range(stages)]
    if schedule is PipelineSchedule.INTERLEAVED and chunks > 1:
        return [_interleaved(stage, stages, micro_batches, chunks) for stage in range(stages)]
    if schedule is PipelineSchedule.ZERO_BUBBLE:
        return [_zero_bubble(stage, stages, micro_batches) for stage in range(stages)]
    return [_one_f_one_b(stage, stages, micro_batches) for stage in range(stages)]


def _one_f_one_b(stage: int, stages: int, micro_batches: int) -> list[Slot]:
    warm = min(stages - stage - 1, micro_batches)
    found = [Slot(FORWARD, one) for one in range(warm)]
    for one in range(micro_batches - warm):
        found += [Slot(FORWARD, warm + one), Slot(BACKWARD, one)]
    return found + [Slot(BACKWARD, one) for one in range(micro_batches - warm, micro_batches)]


def _asynchronous(stage: int, stages: int, micro_batches: int) -> list[Slot]:
    """1F1B that continues across the ends of steps (PipeDream, Narayanan et al. 2019)."""
    found: list[Slot] = []
    steps = steps_in(PipelineSchedule.ASYNCHRONOUS, stages, micro_batches)
    for slot in _one_f_one_b(stage, stages, steps * micro_batches):
        found.append(slot)
        step, rest = divmod(slot.micro_batch + 1, micro_batches)
        if slot.kind == BACKWARD and not rest:
            found.append(Slot(UPDATE, step - 1))
    return found


def _zero_bubble(stage: int, stages: int, micro_batches: int) -> list[Slot]:
    """ZB-H1 (Qi et al. 2023): gradients of weights wait until a stage would be idle, at most for ``stage`` slots."""
    found: list[Slot] = []
    done = 0
    for slot in _one_f_one_b(stage, stages, micro_batches):
        found.append(slot)
        if slot.kind == BACKWARD and slot.micro_batch - done >= stage:
            found.append(Slot(WEIGHTS, done))
            done += 1
    return found + [Slot(WEIGHTS, one) for one in range(done, micro_batches)]


def _interleaved(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Slot]:
    """Groups of ``stages`` micro-batches pass chunk after chunk (Narayanan et al. 2021)."""
    total = micro_batches * chunks

    def slot(kind: str, number: int) -> Slot:
        group, within = divmod(number, stages * chunks)
        chunk, micro_batch = divmod(within, stages)
        chunk = chunk if kind == FORWARD else chunks - 1 - chunk
        return Slot(kind, group * stages + micro_batch, chunk)

    warm = min(total, 2 * (stages - stage - 1) + (chunks - 1) * stages)
    found = [slot(FORWARD, one) for one in range(warm)]
    for one in range(total - warm):
        found += [slot(FORWARD, warm + one), slot(BACKWARD, one)]
    return found + [slot(BACKWARD, one) for one in range(total - warm, total)]


def pipeline_graph(
    order: Sequence[Sequence[Slot]],
    times: Sequence[StageTime],
    send_us: float,
    chunks: int = 1,
    *,
    exchange_us: float = 0.0,
    optimizer_us: float = 0.0,
) -> Graph:
    """One lane per stage. A forward pass waits for the previous stage, a backward pass for the next stage.

    An update consists of the exchange of the stage's gradients and its optimizer step, if they take time.
    Tasks up to and including the update belong to one iteration.
    """
    stages = len(order)
    split = any(slot.kind == WEIGHTS for slot in order[0])
    tasks: list[Task] = []
    durations: list[float] = []
    place: dict[tuple[str, int, int], int] = {}
    for stage, slots in enumerate(order):
        time = times[stage]
        step = 0
        for slot in slots:
            if slot.kind == UPDATE:
                for name, phase, time_us in (
                    ("exchange gradients", Phase.COMMUNICATION, exchange_us),
                    ("optimizer", Phase.OPTIMIZER, optimizer_us),
                ):
                    if time_us > 0:
                        lane = f"stage {stage}"
                        tasks.append(Task(name, TaskKind.KERNEL, WorkClass.OTHER, lane, phase, step))
                        durations.append(time_us)
                step += 1
                continue
            place[slot.kind, slot.micro_batch, slot.chunk * stages + stage] = len(tasks)
            name = f"{slot.kind}{slot.micro_batch}" + (f".{slot.chunk}" if chunks > 1 else "")
            tasks.append(
                Task(name, TaskKind.KERNEL, WorkClass.OTHER, f"stage {stage}", _PHASES[slot.kind], step)
            )
            inputs = time.backward_us - (time.weights_us if split else 0.0)
            durations.append(
                {FORWARD: time.forward_us, BACKWARD: inputs, WEIGHTS: time.weights_us}[slot.kind]
            )
    waits: list[Dependency] = []
    last = stages * chunks - 1
    for (kind, micro_batch, position), task in place.items():
        if kind == FORWARD and position > 0:
            waits.append(Dependency(place[kind, micro_batch, position - 1], task, Cause.EVENT, send_us))
        elif kind == BACKWARD and position < last:
            waits.append(Dependency(place[kind, micro_batch, position + 1], task, Cause.EVENT, send_us))
        elif kind == BACKWARD:
            waits.append(Dependency(place[FORWARD, micro_batch, position], task, Cause.EVENT))
    return Graph(Structure(tasks, waits), durations)


def usable_interleaving(stages: int, micro_batches: int, blocks: int, chunks: int) -> bool:
    """True if there are whole groups of micro-batches and chunks of equal size, as interleaving requires."""
    return micro_batches % stages == 0 and blocks >= stages * chunks


def step_us(timeline: Timeline) -> float:
    """The duration of a step in a simulated schedule. Of several steps, the first half fills the pipeline."""
    ends = timeline.iteration_ends_us()
    return 1e3 * step_ms(ends, len(ends) // 2)


def pipeline_bound_us(
    schedule: PipelineSchedule,
    times: Sequence[StageTime],
    micro_batches: int,
    chunks: int,
    send_us: float,
    update_us: float = 0.0,
) -> float:
    """The step in closed form. ``times`` are the times of whole stages, ``update_us`` the time of an update.

    The slowest stage waits while the first micro-batch passes through all other stages, and while the last
    one returns.
    """
    stages = len(times)
    slowest = max(times, key=lambda time: time.both_us)
    if not schedule.flushes:
        # As many micro-batches as stages are in flight. A stage waits once per such round for a micro-batch
        # to return.
        rounds = micro_batches / stages
        around = rounds * 2 * (stages - 1) * send_us + min(1.0, rounds) * update_us
        return micro_batches * slowest.both_us + max(update_us, around)
    deferred = 2 if schedule is PipelineSchedule.ZERO_BUBBLE else 0
    waits = sum(max(0.0, time.both_us - deferred * time.weights_us) for time in times)
    waits -= max(0.0, slowest.both_us - deferred * slowest.weights_us)
    return (
        micro_batches * slowest.both_us
        + waits / (1 if deferred else max(1, chunks))
        + 2 * (stages - 1) * send_us
        + update_us
    )
