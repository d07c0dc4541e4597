from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.remade_constants import RULE
from skyline.trace.record import OperatorShape, Phase, RecordKind

MASK = OperatorShape("aten::tril", ((512, 512),), ("float32",))
TWO = OperatorShape("aten::mul", ((512, 512), (512, 512)), ("float32", "float32"))


def remade(profile, *, names=("aten::ones", "aten::tril"), shapes=(MASK,), lines=(1, 1), only=None):
    """The forward pass begins with operators of 0.5 ms each; elsewhere the recorded iteration is as it was."""
    records, seen = [], set()
    for record in profile.trace.records:
        if record.name == "aten::relu" and (only is None or record.iteration in only):
            seen.add(record.iteration)
            at = record.start_us
            for place, (name, line) in enumerate(zip(names, lines, strict=True)):
                shape = -1 if place == 0 else 0
                records.append(
                    replace(record, name=name, start_us=at, duration_us=300.0, line=line, shape=shape)
                )
                at += 300.0
        else:
            records.append(record)
    return replace(profile, trace=replace(profile.trace, records=tuple(records), shapes=shapes))


def test_a_mask_that_is_made_in_each_pass(profile, checked):
    found = checked(RULE, remade(profile))
    assert found.line == 5
    # 0.6 ms of 12 ms recorded, and as much of the bare iteration with its Python.
    assert 0.2 < found.cost_ms < 0.8
    assert "(ones, tril)" in found.title


def test_what_another_tensor_goes_into_is_not_the_same_each_time(profile, checked):
    whole = checked(RULE, remade(profile)).cost_ms
    part = checked(RULE, remade(profile, names=("aten::ones", "aten::mul"), shapes=(TWO,)))
    assert part.cost_ms == pytest.approx(whole / 2, rel=0.05)
    assert "(ones)" in part.title


def test_what_was_not_made_alike_in_all_iterations_is_left_alone(profile, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, remade(profile, only=(0, 2))) is None
    assert checked(RULE, remade(profile, names=("aten::zeros", "aten::tril"))) is None


def test_the_optimizer_and_lines_of_nobody_do_not_count(profile, checked):
    trace = remade(profile).trace
    moved = tuple(
        replace(one, phase=Phase.OPTIMIZER) if one.name in ("aten::ones", "aten::tril") else one
        for one in trace.records
    )
    assert checked(RULE, replace(profile, trace=replace(trace, records=moved))) is None
    assert checked(RULE, remade(profile, lines=(-1, -1))) is None
    assert all(one.kind is not RecordKind.KERNEL for one in trace.records)
