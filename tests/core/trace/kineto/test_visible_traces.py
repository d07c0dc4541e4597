"""Every published trace that is at hand: the counts and step lengths that are known of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skyline.trace.kineto.category import Category


def known(shared_data: Path) -> dict[str, dict[str, Any]]:
    return {one["file"]: one for one in json.loads((shared_data / "traces" / "manifest.json").read_text())}


def test_counts_and_steps_are_those_of_the_table(shared_data: Path, published: Any) -> None:
    expected = known(shared_data)[published.path.name]
    trace = published.trace
    assert trace.notes == ()
    count = {kind: int((trace.category == kind).sum()) for kind in Category}
    # Of 2020 and 2021, ranges that PyTorch names are operators in the file and annotations here.
    ranges = count[Category.ANNOTATION] if trace.dialect in {"2020", "2021"} else 0
    assert count[Category.CPU_OP] + ranges == expected["cpu_ops"]
    assert count[Category.KERNEL] == expected["kernels"]
    assert count[Category.COPY] == expected["memcpy"]
    assert count[Category.SET] == expected["memset"]
    assert count[Category.RUNTIME] == expected["runtime"]
    assert count[Category.DRIVER] == expected["driver"]
    if expected["python"] == "call-stack arg":
        assert count[Category.PYTHON] == 0
    else:
        assert count[Category.PYTHON] == expected["python"]
    assert len(trace.allocations) == expected["memory_events"]
    lengths_ms = (trace.steps.end_us - trace.steps.start_us) / 1000
    assert lengths_ms == pytest.approx(expected["step_ms"], abs=0.0051)


def test_columns_hold_together(published: Any) -> None:
    trace = published.trace
    assert (np.diff(trace.start_us) >= 0).all()
    assert trace.start_us[0] == 0
    assert (trace.duration_us >= 0).all()
    on_gpu = trace.category >= Category.GPU_ANNOTATION
    assert (trace.thread[on_gpu] == -1).all()
    assert (trace.thread[~on_gpu] >= 0).all()
    assert trace.thread.max() == len(trace.threads) - 1
    work = trace.of(Category.KERNEL, Category.COPY, Category.SET)
    assert (trace.stream[work] >= 0).all()
    assert (trace.device[work] >= 0).all()
    calls = set(trace.correlation[trace.of(Category.RUNTIME, Category.DRIVER)].tolist())
    joined = np.array([one in calls for one in trace.correlation[work].tolist()])
    # Work without a call was launched before recording began: its correlations lie below the first call's.
    assert (trace.correlation[work][~joined] < min(calls)).all()


@pytest.mark.parametrize("published", ["hta_v100_resnet50_ddp1"], indirect=True)
def test_nanoseconds_survive_absolute_times(published: Any) -> None:
    """µs since 1970 with three decimals: a float alone would round them to quarters of a µs."""
    trace = published.trace
    thousandths = np.unique(np.round(trace.start_us * 1000).astype(np.int64) % 1000)
    assert len(thousandths) > 900
    assert trace.base_ns // 10**9 == 1712195495


@pytest.mark.parametrize("published", ["hta_a100_rank0of16_recsys"], indirect=True)
def test_what_a_distributed_trace_says_of_its_job(published: Any) -> None:
    trace = published.trace
    assert (trace.rank, trace.world_size) == (0, 16)
    assert trace.devices[0].name == "NVIDIA A100-SXM4-80GB"
    assert trace.devices[0].multiprocessors == 108


@pytest.mark.parametrize("published", ["hta_v100_resnet50_ddp1"], indirect=True)
def test_collectives_with_what_they_transfer(published: Any) -> None:
    collectives = published.trace.collectives
    assert len(collectives) == 45
    assert set(collectives.elements_in.tolist()) >= {2049000}


@pytest.mark.parametrize("published", ["hta_a100_inference_alexnet"], indirect=True)
def test_recorded_waits(published: Any) -> None:
    trace = published.trace
    assert (trace.waits.recorded_by > 0).sum() == 20
    assert (trace.category[trace.waits.event] == Category.SYNC).all()
