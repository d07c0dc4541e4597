"""Sub-batches that stay in a cache: the best groups of a few layers, and a step of two layers, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.estimate import answer
from skyline.errors import UsageError
from skyline.trace.facts import ModuleFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.trace.trial import Choices, Trial
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.memory.serialize import WHATIF
from skyline.whatif.composition import compose, detected_in
from skyline.whatif.cost.sub_batches import Group, LayerCost, Serialization
from skyline.whatif.question import Choice

KB, MB = 1e3, 1e6
GROUP_NORM = "GroupNorm"


def layer(taken, given, weights, *passes_us):
    """Time with 4 samples at once, in two parts, in four."""
    sizes = dict(zip((4, 2, 1), passes_us, strict=True))
    return LayerCost(taken, given, taken + given, weights, sizes)


def plan(*layers, cache_bytes=10.0):
    return Serialization(layers, 4, cache_bytes, 1.0)


def test_layers_that_gain_are_one_group():
    # In: 4 bytes. Out of the group: 3 * 1 byte. Each layer saves 10 µs in halves and 4 in quarters.
    first, last = layer(4, 8, 0, 100, 90, 96), layer(8, 1, 0, 100, 90, 96)
    found = plan(first, last)
    assert found.groups() == (Group(0, 2, 2),)
    assert found.changes_us(found.groups()) == [-10 + 4, -10 + 3]
    assert found.copied_bytes(found.groups()) == 1


def test_copies_between_groups_count():
    # The middle layer loses 20 µs in halves; to leave it out costs 3 * 8 before it and 8 behind it.
    ends = layer(1, 8, 0, 100, 80, 100), layer(8, 1, 0, 100, 80, 100)
    middle = layer(8, 8, 0, 100, 120, 130)
    together = plan(ends[0], middle, ends[1])
    assert together.groups() == (Group(0, 3, 2),)
    slower = plan(ends[0], layer(8, 8, 0, 100, 140, 150), ends[1])
    assert slower.groups() == (Group(2, 3, 2),)
    assert sum(slower.changes_us(slower.groups())) == -20 + 8 + 3


def test_a_cache_that_holds_less_needs_smaller_parts():
    one = layer(8, 8, 0, 100, 50, 60)
    assert plan(one, cache_bytes=8).groups() == (Group(0, 1, 2),)
    # Of 16 bytes four fit: quarters. They save 40, and 8 + 24 µs are the copies.
    assert plan(one, cache_bytes=4).groups() == (Group(0, 1, 1),)
    assert plan(one, cache_bytes=3).groups() == ()


def test_weights_take_room_and_their_gradients_are_added_up():
    # The second half adds its gradient: two bytes read and one written, for each byte of the weights.
    for weights, expected in ((2, (Group(0, 1, 2),)), (7, ())):
        assert plan(layer(1, 1, weights, 100, 80, 85)).groups() == expected
    heavy = plan(layer(1, 1, 2, 100, 80, 85))
    assert heavy.changes_us(heavy.groups()) == [-20 + 3 * 2 + 1 + 3]
    assert plan(layer(1, 1, 9.9, 100, 0, 0)).groups() == ()


def test_sub_batches_that_take_longer_bring_nothing():
    assert plan(layer(0, 0, 0, 100, 100, 100), layer(0, 0, 0, 100, 101, 120)).groups() == ()
    assert Serialization((), 4, 10, 1).groups() == ()


FLOP = 8_000_000_000
WIDE = (16, 62_500)
"""4 MB in float32."""
LINEAR = OperatorShape(
    "aten::linear", (WIDE, (8, 8)), ("float32",) * 2, (WIDE,), ("float32",), 8_000_000_000, 8_000_000
)
LAST = OperatorShape(
    "aten::linear", (WIDE, (8, 8)), ("float32",) * 2, ((16, 10),), ("float32",), FLOP, 4_000_000
)
MODULES = (
    ModuleFact("Net", "Net", False, 0, True, {}),
    ModuleFact("Net.first", "Linear", True, 0, True, {}),
    ModuleFact("Net.last", "Linear", True, 10_000, True, {}),
)
WORK = (
    ("aten::linear", Phase.FORWARD, 1, 0, 2000.0),
    ("aten::linear", Phase.FORWARD, 2, 1, 2000.0),
    ("AddmmBackward0", Phase.BACKWARD, 2, -1, 3000.0),
    ("AddmmBackward0", Phase.BACKWARD, 1, -1, 3000.0),
)


def trial(size, ratio):
    times = BareTimes((10.0 * ratio,) * 9, (0.0,) * 9, (6.0 * ratio,) * 9, (0.0,) * 9)
    return Trial(Choices(batch_size=size), times, (ratio,) * 9, peak_bytes=int(size * 4 * MB))


def network(profile, half=0.4, work=WORK, modules=MODULES, cache_bytes=6 * MB):
    """A step of 10 ms with 16 samples: two layers with 2 ms of forward and 3 ms of backward pass each."""
    records: list[Record] = []
    marks: list[IterationMark] = []
    now = 0.0
    for index in range(3):
        begin = now
        for name, phase, module, shape, took in work:
            records.append(
                Record(name, RecordKind.OPERATOR, phase, "main", index, now, took, module=module, shape=shape)
            )
            now += took
        marks.append(IterationMark(index, begin, now))
    trace = Trace(tuple(marks), (), ("Net", "Net.first", "Net.last"), tuple(records), shapes=(LINEAR, LAST))
    return replace(
        profile,
        environment=replace(profile.environment, cache_bytes=int(cache_bytes)),
        trace=trace,
        times=BareTimes((10.0,) * 9, (0.0,) * 9, (6.0,) * 9, (0.0,) * 9),
        loaders=(),
        modules=modules,
        trials=(trial(8, half), trial(32, 2.0)),
    )


def asked(subject, value=""):
    return answer(subject, [Choice("serialize", value)])


def test_a_step_of_two_layers_by_hand(profile):
    """Halves take 0.4 of a step each: 8 ms. At 10 GB/s 4 MB are read into the group, 640 bytes leave it three times.

    The gradient of 10,000 weights is added once: 120 kB.
    """
    subject = baseline(network(profile))
    found = asked(subject)
    expected = 8000 + 4 * MB / 10e3 + 3 * 640 / 10e3 + 120 * KB / 10e3
    assert found.iteration_ms.value == pytest.approx(expected / 1e3, rel=1e-3)
    assert found.iteration_ms.low < found.iteration_ms.value < found.iteration_ms.high
    assert (found.semantics, found.provenance, found.value) == ("numerics", "tried", "6")
    assert found.assumptions[0] == "Net.first to Net.last in sub-batches of 8"
    memory = compose(subject, [Choice("serialize")]).scenario.memory
    assert memory.levels.peak().activations - subject.memory.levels.peak().activations == 640


def test_a_measured_gain_counts_where_the_last_cache_holds_the_whole_batch(profile):
    """A nearer cache holds halves, as the measured batch shows. A gain within the range of that batch is none."""
    found = asked(baseline(network(profile, cache_bytes=20 * MB)))
    assert found.assumptions[0] == "Net.first to Net.last in sub-batches of 8"
    assert found.iteration_ms.high < 10.0
    for half in (0.48, 0.52):
        answered = asked(baseline(network(profile, half=half, cache_bytes=20 * MB)))
        assert "stay in 20.0 MB already" in answered.reason


def test_smaller_caches_need_smaller_parts_than_were_measured(profile):
    subject = baseline(network(profile, half=0.35))
    found = asked(subject, "2.5")
    assert "sub-batches of 4" in found.assumptions[0]
    assert found.extrapolated
    assert found.provenance == "modelled"


def test_a_larger_batch_comes_first(profile):
    subject = baseline(network(profile))
    alone = answer(subject, [Choice("batch_size", "32")])
    both = answer(subject, [Choice("batch_size", "32"), Choice("serialize", "6")])
    assert both.reason is None
    assert "sub-batches of 8" in " ".join(both.assumptions)
    assert both.iteration_ms.value < alone.iteration_ms.value


def test_batch_normalization_is_refused_with_the_cure(profile):
    norm = ModuleFact("Net.norm", "BatchNorm2d", True, 8, True, {})
    found = detected_in(baseline(network(profile, modules=(*MODULES, norm))), WHATIF)
    assert not found.applicable
    assert "Net.norm takes mean and variance over the whole batch" in found.reason
    assert GROUP_NORM in found.reason
    called = (("aten::batch_norm", Phase.FORWARD, 1, 0, 2000.0), *WORK[1:])
    assert (
        "aten::batch_norm takes mean" in detected_in(baseline(network(profile, work=called)), WHATIF).reason
    )


def test_it_says_where_sub_batches_bring_nothing(profile):
    found = detected_in(baseline(network(profile, half=0.6)), WHATIF)
    assert found.reason.startswith(
        "it gains nothing: in sub-batches of 8 the layers that stay in 6.0 MB take 1.20"
    )
    assert "as measured" in found.reason
    # Halves save 0.4 ms, which the copy into the group takes.
    even = detected_in(baseline(network(profile, half=0.48)), WHATIF)
    assert "copying between groups" in even.reason


def test_reasons_where_it_cannot_be(profile, gpu_profile):
    def reason(made):
        return detected_in(baseline(made), WHATIF).reason

    assert "only for runs on a CPU" in reason(gpu_profile)
    assert "stay in 20.0 MB already" in reason(network(profile, half=0.48, cache_bytes=20 * MB))
    assert "no layer with its weights fits" in reason(network(profile, cache_bytes=60 * KB))
    assert "no other batch size" in reason(replace(network(profile), trials=()))
    parts = replace(profile.batch, micro_batches=2)
    assert "in parts already" in reason(replace(network(profile), batch=parts))
    bare = tuple((*one[:3], -1, one[4]) for one in WORK)
    assert "sizes of the layers were not recorded" in reason(network(profile, work=bare))
    # The profile of the example has no modules that layers could be named by.
    assert not detected_in(baseline(profile), WHATIF).applicable


def test_values(profile):
    subject = baseline(network(profile))
    for value in ("0", "-1", "x", "nan", "1e9"):
        with pytest.raises(UsageError, match="not possible"):
            asked(subject, value)
    assert asked(subject, "0.06").reason.startswith("no layer")
    both = answer(subject, [Choice("serialize", "6"), Choice("grad_accumulation", "2")])
    assert "together" in both.reason
