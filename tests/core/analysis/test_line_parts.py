from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse


def test_parts_of_a_line_sum_to_it_and_name_what_it_calls(profile):
    records = tuple(
        replace(record, function=0) if record.name == "aten::relu" else record
        for record in profile.trace.records
    )
    trace = replace(profile.trace, records=records, functions=("torch.nn.functional.relu",))
    line = next(row for row in analyse(replace(profile, trace=trace)).lines if row.line == 5)
    assert sum(part.self_ms for part in line.parts) == pytest.approx(line.self_ms)
    by_name = {part.callee: part for part in line.parts}
    # The forward of 3 ms as recorded is 2.25 ms bare, of which the activation function is a fifth.
    assert by_name["torch.nn.functional.relu"].self_ms == pytest.approx(2.25 * 0.6 / 3)
    assert by_name["AddmmBackward0"].module == "Linear"


def test_arithmetic_sums_over_forward_and_backward(profile):
    records = tuple(
        replace(
            record, flops=1000 if record.name == "aten::linear" else 2000 if "Addmm" in record.name else 0
        )
        for record in profile.trace.records
    )
    lines = analyse(replace(profile, trace=replace(profile.trace, records=records))).lines
    assert next(row for row in lines if row.line == 5).flops == 3000


def test_kernels_are_told_beside_the_time_of_the_host(gpu_profile):
    lines = analyse(gpu_profile).lines
    forward = next(row for row in lines if row.line == 5)
    assert forward.gpu_ms == pytest.approx(4 * 0.5)
    assert sum(row.self_ms for row in lines) == pytest.approx(2.013)
