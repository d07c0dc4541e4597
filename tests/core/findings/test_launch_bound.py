from __future__ import annotations

import pytest

from skyline.findings.launch_bound import RULE


def test_small_kernels_leave_the_gpu_idle(gpu_script, checked):
    found = checked(RULE, gpu_script([("add", 5.0)] * 40, python_us=40.0))
    # 40 launches of 50 µs for 0.2 ms of work: that is what would remain.
    assert found.cost_ms == pytest.approx(1.8, abs=0.1)
    assert found.title.startswith("the GPU is busy 10%")
    assert any("40 launches" in one.text for one in found.evidence)
    assert found.line == 5


def test_a_busy_gpu_is_no_problem(gpu_script, profile, checked):
    assert checked(RULE, gpu_script([("sgemm", 500.0)] * 4)) is None
    assert checked(RULE, profile) is None


def test_an_idle_gpu_that_waits_for_data_is_another_problem(traced, checked):
    found = checked(RULE, traced)
    assert found is None
