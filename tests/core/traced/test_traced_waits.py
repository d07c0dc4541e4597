"""Which waits of a recorded script could be left out, how many they are, and how far that helps."""

from __future__ import annotations

import json

import pytest

from skyline.analysis.estimate import answer
from skyline.trace.kineto.reader import read
from skyline.whatif.question import Choice
from skyline.whatif.recorded import recorded
from skyline.whatif.registry import whatifs


def renamed(*names):
    """Whatever reads a value in the recording is done by these operators, the outermost first."""

    def change(event):
        if event["name"] != "aten::item":
            return event
        return {**event, "name": names[0]}

    return change


@pytest.mark.parametrize("name", ["aten::nonzero", "aten::masked_select", "aten::is_nonzero"])
def test_what_decides_sizes_or_branches_stays(changed, name):
    found = whatifs()["remove_sync"].detect(changed(renamed(name)))
    assert not found.applicable


def test_a_branch_is_decided_by_the_operators_within_too(changed):
    inner = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": name,
            "pid": 1,
            "tid": 1,
            "ts": 1000 * step + at,
            "dur": 140,
            "args": {},
        }
        for step in range(5)
        for name, at in (("aten::item", 561), ("aten::_local_scalar_dense", 562))
    ]
    assert not whatifs()["remove_sync"].detect(changed(renamed("aten::is_nonzero"), inner)).applicable


def test_a_copy_and_the_wait_for_its_stream_are_one(changed):
    def pageable(event):
        if "DtoH" in event["name"]:
            return {**event, "name": "Memcpy DtoH (Device -> Pageable)"}
        # The call returns when the copy is done, and the wait behind it is short.
        if event["name"] == "cudaMemcpyAsync" and event["args"]["correlation"] % 100 == 30:
            return {**event, "dur": 130}
        if event["name"] == "cudaStreamSynchronize":
            return {**event, "ts": event["ts"] + 117, "dur": 5}
        return event

    found = answer(changed(pageable), [Choice("remove_sync")])
    assert found.applicable
    assert any("(1 times a step)" in one for one in found.assumptions)


def test_a_single_step_that_begins_behind_earlier_work_does_not_get_below_its_busy_gpu(tmp_path):
    """The GPU is busy for 960 of 1,000 us, of which 600 us are the work of the step before."""
    events = []

    def add(name, category, start, duration, place, **given):
        events.append({"ph": "X", "cat": category, "name": name, "pid": place, "tid": place, "ts": start,
                       "dur": duration, "args": given})  # fmt: skip

    add("ProfilerStep#3", "user_annotation", 1000, 1000, 1)
    add("cudaLaunchKernel", "cuda_runtime", 900, 10, 1, correlation=1)
    add("sgemm", "kernel", 910, 690, 7, stream=7, correlation=1)
    for number, (at, begin, length) in enumerate(((1010, 1600, 200), (1100, 1800, 160)), 2):
        add("aten::mm", "cpu_op", at, 40, 1)
        add("cudaLaunchKernel", "cuda_runtime", at + 5, 10, 1, correlation=number)
        add("sgemm", "kernel", begin, length, 7, stream=7, correlation=number)
    add("aten::item", "cpu_op", 1200, 780, 1)
    add("cudaMemcpyAsync", "cuda_runtime", 1205, 10, 1, correlation=8)
    add("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 1961, 3, 7, stream=7, correlation=8)
    add("cudaStreamSynchronize", "cuda_runtime", 1220, 750, 1, correlation=9)
    path = tmp_path / "one_step.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    found = answer(recorded(read(path)), [Choice("remove_sync")])
    assert found.applicable
    assert found.iteration_ms.value >= 0.95
