"""Fused attention on a GPU by hand, and what is and is not attention."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.trace.facts import Device
from skyline.trace.record import OperatorShape, Phase, RecordKind
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.attention import Site, written_out
from skyline.whatif.catalogue.models.sdpa import _BACKWARD, _GPU_RANGE, _GPU_SHARE, fused

HEADS, POSITIONS, WIDTH = 8, 64, 16
PAIRS, WIDE = (HEADS, POSITIONS, POSITIONS), (HEADS, POSITIONS, WIDTH)
PRODUCT = 2 * HEADS * POSITIONS * POSITIONS * WIDTH


def call(name, *inputs, flops=0):
    return OperatorShape(name, inputs, ("float32",) * len(inputs), (), (), flops, 0)


def rows(*, masked=False, product="aten::bmm"):
    made = [
        ("aten::linear", Phase.FORWARD, 500.0, call("aten::linear", (128, 64), (64, 64), flops=7)),
        ("aten::clone", Phase.FORWARD, 50.0, call("aten::clone", WIDE)),
        (product, Phase.FORWARD, 200.0, call(product, WIDE, WIDE, flops=PRODUCT)),
        ("aten::mul", Phase.FORWARD, 40.0, call("aten::mul", PAIRS)),
        ("aten::softmax", Phase.FORWARD, 100.0, call("aten::softmax", PAIRS)),
        (product, Phase.FORWARD, 200.0, call(product, PAIRS, WIDE, flops=PRODUCT)),
        ("BmmBackward0", Phase.BACKWARD, 400.0, call("BmmBackward0", WIDE, flops=2 * PRODUCT)),
        ("SoftmaxBackward0", Phase.BACKWARD, 150.0, call("SoftmaxBackward0", PAIRS)),
    ]
    if masked:
        mask = call("aten::masked_fill", PAIRS, (1, POSITIONS, POSITIONS))
        made.insert(4, ("aten::masked_fill", Phase.FORWARD, 30.0, mask))
    return made


@pytest.fixture
def attending(layered):
    def made(name="NVIDIA A100-SXM4-80GB", **given):
        operators = rows(**given)
        kernels = [(operator, phase, 0, took) for operator, phase, took, _ in operators]
        profile = layered(kernels, operators[0][3])
        places = iter([*range(len(operators))] * 3)
        records = tuple(
            replace(one, shape=next(places)) if one.kind is RecordKind.KERNEL else one
            for one in profile.trace.records
        )
        trace = replace(profile.trace, records=records, shapes=tuple(one[3] for one in operators))
        environment = replace(profile.environment, device=Device(name, "cuda"))
        return baseline(replace(profile, trace=trace, environment=environment))

    return made


@pytest.mark.parametrize("name", ["NVIDIA A100-SXM4-80GB", "An unknown GPU"])
@pytest.mark.parametrize(("masked", "share"), [(False, 1.0), (True, 0.5)])
def test_the_products_take_their_share_and_half_with_a_causal_mask(attending, name, masked, share):
    subject = attending(name, masked=masked)
    graph = subject.operators
    sites = written_out(subject, graph)
    assert len(sites) == 3
    one = sites[0].calls[0]
    changed = fused(subject, graph, sites, _GPU_RANGE.value, 1.0)
    products_us = graph.durations[list(one.products)].sum()
    expected_us = _GPU_RANGE.value * products_us * share / _GPU_SHARE.value
    assert changed.durations[one.products[0]] == pytest.approx(expected_us)
    assert changed.durations[[one.products[1], one.softmax, *one.others]].sum() == 0
    back = sites[0].backward_products
    assert changed.durations[back[0]] == pytest.approx(_BACKWARD.value * expected_us)


def test_copies_for_the_products_and_matrices_of_three_dimensions_belong_to_it(attending):
    subject = attending()
    one = written_out(subject, subject.operators)[0].calls[0]
    names = [subject.operators.tasks[index].name for index in one.others]
    assert names == ["aten::mul", "aten::clone"]
    backward = written_out(subject, subject.operators)[0].backward_others
    assert [subject.operators.tasks[index].name for index in backward] == ["SoftmaxBackward0"]


@pytest.mark.parametrize("product", ["aten::addmm", "aten::mm", "aten::linear"])
def test_products_with_a_weight_are_no_attention(attending, product):
    subject = attending(product=product)
    assert written_out(subject, subject.operators) == ()


def test_a_call_that_is_repeated_is_fused_where_it_is_repeated(attending):
    subject = attending()
    graph = subject.operators
    first, second, _ = (site.calls[0] for site in written_out(subject, graph))
    site = Site([first], [second])
    changed = fused(subject, graph, (site,), 1.0, 1.0)
    for one in (first, second):
        expected_us = graph.durations[list(one.products)].sum() / _GPU_SHARE.value
        assert changed.durations[one.products[0]] == pytest.approx(expected_us)
        assert changed.durations[[one.products[1], one.softmax, *one.others]].sum() == 0
