"""A predicted profile of a stored program: its operators in order, timed as by ``skyline profile --gpu``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from operator_table import OperatorTable, TableRow

from skyline.graph.task import WorkClass, work_class
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.operator_time import OperatorPredictor
from skyline.predict.predicted_times import timed
from skyline.source.knob import KnobSearch
from skyline.trace.facts import BatchFact, Device, Environment, MemoryFact, TorchSettings
from skyline.trace.profile import CAPTURE_SCHEMA, Profile
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace

MAIN, STREAM = "cpu:main", "gpu0:stream7"
_TICK_US = 10.0
_BACKWARD = "backward"


def predicted_profile(
    table: OperatorTable, batch: int, gpu: GpuSpec, predictor: OperatorPredictor, *,
    training: bool, renamed: dict[str, str] | None = None,
) -> Profile:  # fmt: skip
    """The profile of one program at a batch size on a GPU, with the times of a predictor."""
    shapes: dict[OperatorShape, int] = {}
    records: list[Record] = []
    for phase, row in in_order(table.calls, training=training):
        number = len(records) // 2 + 1
        shape = shapes.setdefault(row.at(batch, renamed or {}), len(shapes))
        start_us = number * _TICK_US
        launch = Record("cudaLaunchKernel", RecordKind.RUNTIME, phase, MAIN, 0, start_us, 1.0)
        kernel = Record(row.operator, RecordKind.KERNEL, phase, STREAM, 0, start_us, 1.0)
        records.append(replace(launch, correlation=number))
        records.append(replace(kernel, correlation=number, shape=shape))
    end_us = len(records) * _TICK_US
    trace = Trace((IterationMark(0, 0.0, end_us),), (), (), tuple(records), shapes=tuple(shapes))
    return timed(_traced(trace, batch, table, gpu), gpu, predictor)


def in_order(calls: Sequence[TableRow], *, training: bool) -> Iterator[tuple[Phase, TableRow]]:
    """Every call with its phase. A table only counts equal calls; their order follows from the tensors they pass on."""
    for phase, rows in _phases(calls, training=training):
        yield from ((phase, row) for row in _chained(rows))


def _phases(calls: Sequence[TableRow], *, training: bool) -> Iterator[tuple[Phase, Sequence[TableRow]]]:
    """The calls of each phase. Tables list calls by first occurrence: forward, backward, then the optimizer."""
    backward = [place for place, row in enumerate(calls) if _BACKWARD in row.operator.lower()]
    if not training or not backward:
        yield Phase.FORWARD, calls
        return
    stepping = [
        place
        for place, row in enumerate(calls)
        if place > backward[-1] and "foreach" in row.operator
    ]  # fmt: skip
    end = stepping[0] if stepping else backward[-1] + 1
    yield Phase.FORWARD, calls[: backward[0]]
    yield Phase.BACKWARD, calls[backward[0] : end]
    yield Phase.OPTIMIZER, calls[end:]


def _chained(rows: Sequence[TableRow]) -> Iterator[TableRow]:
    """The calls in chains: after each product, the calls that take a tensor of its result's size, each row once."""
    left = [row.count for row in rows]
    light = [work_class(row.operator) is WorkClass.OTHER for row in rows]
    given: tuple[int, ...] = ()
    used: set[int] = set()
    first = 0
    while True:
        while first < len(rows) and not left[first]:
            first += 1
        if first == len(rows):
            return
        following = (
            place
            for place in range(first, len(rows))
            if left[place] and light[place] and place not in used and rows[place].inputs[:1] == (given,)
        )
        place = next(following, first)
        used = used | {place} if light[place] else set()
        left[place] -= 1
        given = rows[place].outputs[0] if rows[place].outputs else given
        yield rows[place]


def _traced(trace: Trace, batch: int, table: OperatorTable, gpu: GpuSpec) -> Profile:
    environment = Environment(
        Device(gpu.full_name, "cuda"), "3.11.0", "2.4.0", "linux", 8, 8, gpu.memory_bytes
    )  # fmt: skip
    return Profile(
        schema=CAPTURE_SCHEMA,
        id="published",
        created="",
        script="",
        arguments=(),
        working_directory="",
        interpreter="",
        environment=environment,
        sources=(),
        times=BareTimes((1.0,), (0.0,), (0.0,), (0.0,)),
        warmup_iterations=0,
        recorded_ms=(),
        trace=trace,
        memory=MemoryFact(table.held_bytes, 0, 0, 0),
        peak_bytes=table.peak_bytes(batch),
        batch=BatchFact((batch,), batch),
        knobs=KnobSearch((), ()),
        batch_size=batch,
        settings=TorchSettings(
            matmul_precision="highest", cudnn_tf32=True, compute_capability=gpu.compute_capability
        ),
    )
