"""A traced iteration made by hand: one µs for each record, in the order of the host."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.predict.gpu_spec import GpuSpec
from skyline.trace.profile import Profile
from skyline.trace.record import Allocation, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace

MM = OperatorShape(
    "aten::mm", ((64, 64), (64, 64)), ("float32",) * 2, ((64, 64),), ("float32",), 2 * 64**3, 49152
)
GELU = OperatorShape("aten::gelu", ((4096,),), ("bfloat16",), ((4096,),), ("bfloat16",), 4096, 16384)
COPY = OperatorShape("aten::_to_copy", ((1024,),), ("float32",), ((1024,),), ("float32",), 0, 8192)


class _Writer:
    def __init__(self) -> None:
        self.records: list[Record] = []
        self.now_us = 0.0
        self.launches = 0

    def host(self, name: str, kind: RecordKind, phase: Phase, line: int, correlation: int = 0) -> None:
        self.records.append(
            Record(name, kind, phase, "cpu:main", 0, self.now_us, 1.0, line, -1, -1, correlation)
        )
        self.now_us += 1.0

    def device(
        self, shape: int, phase: Phase, line: int, *, name: str = "kernel", copy: bool = False
    ) -> None:
        self.launches += 1
        kind = RecordKind.COPY if copy else RecordKind.KERNEL
        start = self.now_us + (0.0 if copy else 0.5)
        self.host("cudaLaunchKernel", RecordKind.RUNTIME, phase, line, self.launches)
        self.records.append(
            Record(name, kind, phase, "gpu:0", 0, start, 1.0, line, -1, -1, self.launches, shape)
        )


@pytest.fixture
def traced(profile: Profile) -> Profile:
    """Fetch, copy, two forward kernels, ``.item()``, two backward kernels, one of the optimizer."""
    writer = _Writer()
    writer.host("next", RecordKind.DATA, Phase.DATA, 0)
    writer.device(2, Phase.DATA, 1, name="Memcpy HtoD", copy=True)
    writer.device(0, Phase.FORWARD, 1)
    writer.device(1, Phase.FORWARD, 1)
    writer.host("cudaStreamSynchronize", RecordKind.RUNTIME, Phase.OTHER, 3)
    writer.device(0, Phase.BACKWARD, 1)
    writer.device(1, Phase.BACKWARD, 1)
    writer.device(1, Phase.OPTIMIZER, 2)
    trace = Trace(
        (IterationMark(0, 0.0, writer.now_us),),
        profile.trace.lines,
        (),
        tuple(writer.records),
        (
            Allocation(2.0, 30_000_000, 1, Phase.FORWARD, 1),
            Allocation(5.0, -30_000_000, 1, Phase.BACKWARD, 1),
        ),
        (MM, GELU, COPY),
    )
    return replace(profile, trace=trace, mode="predicted", trials=())


@pytest.fixture
def gpu() -> GpuSpec:
    return GpuSpec(
        "X1", "Example X1", "Example", "Example", 8 * 2**30, 1000.0, 10, 1000, 2**20, (9, 9), 100, 10.0
    )
