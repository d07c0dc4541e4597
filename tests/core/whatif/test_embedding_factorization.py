"""A table becomes narrower or wider, products come behind it, the update follows, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.trace.facts import MemoryFact, ModuleFact, OptimizerFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.whatif.base import Grain, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.embedding_factorization import WHATIF, factored_tables
from skyline.whatif.cost.narrow_rate import HALF_RATE
from skyline.whatif.cost.thread_scaling import CALL_US

ROWS, WIDTH, INDICES, BETWEEN = 10_000, 64, 512, 16
WEIGHT, LEFT = ROWS * WIDTH, BETWEEN * (ROWS + WIDTH)
SIDE, FLOPS = 256, 1_000_000


def embedding(path="Net.table", rows=ROWS, width=WIDTH, name="Embedding", **options):
    given = {"num_embeddings": rows, "embedding_dim": width, "sparse": False, **options}
    return ModuleFact(path, name, True, rows * width, True, given)


ROOT = ModuleFact("Net", "Net", False, 0, True, {})


def trace_of(bag=False, product=True, iterations=3):
    """Each iteration: lookup 1 ms, a product 1 ms, gradient of the table 2 ms, an update of 4 ms that is traffic."""
    sizes = ((ROWS, WIDTH), (INDICES,), (INDICES // 2,)) if bag else ((ROWS, WIDTH), (INDICES,))
    name = "aten::embedding_bag" if bag else "aten::embedding"
    shapes = (
        OperatorShape(name, sizes, ("float32", "int64", "int64")[: len(sizes)]),
        OperatorShape("aten::mm", ((SIDE, SIDE), (SIDE, SIDE)), ("float32",) * 2, flops=FLOPS),
        OperatorShape("EmbeddingBackward0", ((INDICES, WIDTH),), ("float32",)),
        OperatorShape("aten::addcdiv_", ((ROWS, WIDTH),) * 3, ("float32",) * 3),
    )
    work = [
        (name, Phase.FORWARD, 1000, 1, 0),
        ("aten::mm" if product else "aten::relu", Phase.FORWARD, 1000, 0, 1),
        ("EmbeddingBackward0", Phase.BACKWARD, 2000, 1, 2),
        ("aten::addcdiv_", Phase.OPTIMIZER, 4000, 0, 3),
    ]
    records, marks, clock = [], [], 0.0
    for iteration in range(iterations):
        begin = clock
        for name, phase, took, module, shape in work:
            place = {"module": module, "shape": shape}
            records.append(Record(name, RecordKind.OPERATOR, phase, "main", iteration, clock, took, **place))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    return Trace(tuple(marks), (), ("Net", "Net.table"), tuple(records), shapes=shapes)


@pytest.fixture
def net(profile):
    """A model that fits into the caches."""
    return replace(
        profile,
        trace=trace_of(),
        times=BareTimes((8.0,) * 9, (0.0,) * 9, (2.0,) * 9, (4.0,) * 9),
        modules=(ROOT, embedding()),
        memory=MemoryFact(4 * WEIGHT, 4 * WEIGHT, 8 * WEIGHT, 0),
        peak_bytes=16 * WEIGHT,
        optimizers=(OptimizerFact("Adam", 1, 4, WEIGHT, 8 * WEIGHT, {}),),
        loaders=(),
        trials=(),
        calls=(),
    )


def asked(profile, value=str(BETWEEN)):
    start = baseline(profile)
    before = Scenario.of(start, Grain.OPERATORS)
    return start, before, WHATIF.transform(before, value, start)


def product_us(rows):
    """By hand: one product at the rate of the recorded one, each with the slowness of its narrowest side."""
    rate = FLOPS * (1 + HALF_RATE.value / SIDE) / (1000 - CALL_US)
    return CALL_US + 2 * rows * BETWEEN * WIDTH * (1 + HALF_RATE.value / BETWEEN) / rate


def narrow_us(now_us):
    return CALL_US + (now_us - CALL_US) * BETWEEN / WIDTH


@pytest.mark.parametrize("bag", [False, True])
def test_the_table_is_a_quarter_as_wide_and_three_products_come(net, bag):
    rows = INDICES // 2 if bag else INDICES
    # A small model: what a step leaves in the caches gains nothing.
    small = replace(net, trace=trace_of(bag=bag), memory=MemoryFact(4 * WEIGHT, 4 * WEIGHT, 8 * WEIGHT, 0))
    start, _, changed = asked(small)
    step = 4000 * LEFT / WEIGHT
    expected = narrow_us(1000) + 1000 + narrow_us(2000) + 3 * product_us(rows) + step
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=1e-6)
    assert changed.below_ms > 0
    assert changed.above_ms > 0
    assert changed.memory.levels.peak().activations == 4 * rows * BETWEEN


def test_a_wider_table_costs_more(net):
    start, before, changed = asked(net, "256")
    assert start.step_ms(changed.graph) > start.step_ms(before.graph)
    more = 256 * (ROWS + WIDTH) - WEIGHT
    assert changed.memory.parameters - before.memory.parameters == pytest.approx(4 * more)
    assert changed.memory.levels.peak().gradients > before.memory.levels.peak().gradients
    assert any("parameters are added to" in one for one in changed.assumptions)
    assert changed.above_ms > 0


def test_memory_loses_the_parameters(net):
    _, before, changed = asked(net)
    less = WEIGHT - LEFT
    assert before.memory.parameters - changed.memory.parameters == pytest.approx(4 * less)
    assert before.memory.optimizer - changed.memory.optimizer == pytest.approx(8 * less)


def test_only_tables_that_become_smaller_are_factored_unless_none_is_wider(net):
    small = embedding("Net.few", rows=8, width=32)
    both = replace(net, modules=(ROOT, embedding(), small))
    assert [one.module.path for one in factored_tables(both, 16)] == ["Net.table"]
    assert [one.module.path for one in factored_tables(both, 4)] == ["Net.table", "Net.few"]
    assert [one.module.path for one in factored_tables(both, 128)] == ["Net.table"]
    start, _, changed = asked(both, "64")
    assert "already have dimension 64" in changed.reason
    with pytest.raises(UsageError):
        WHATIF.transform(Scenario.of(start, Grain.OPERATORS), "much", start)


def test_without_a_recorded_product_the_rate_is_assumed(net):
    _, _, known = asked(net)
    _, _, unknown = asked(replace(net, trace=trace_of(product=False)))
    assert (known.provenance.value, unknown.provenance.value) == ("modelled", "assumed")
    assert any("the recording has none" in one for one in unknown.assumptions)


def test_values_are_widths_around_a_quarter_of_the_largest_table(net):
    found = WHATIF.detect(baseline(net))
    assert (found.applicable, found.default, found.values) == (True, "16", ("8", "16", "32"))


FACTORED = (
    ROOT,
    ModuleFact("Net.table", "Sequential", True, 0, True, {}),
    embedding("Net.table.0"),
    ModuleFact("Net.table.1", "Linear", True, 9, True, {"in_features": 9, "out_features": 1, "bias": False}),
)
OUTPUT = ModuleFact("Net.out", "Linear", True, 0, True, {"in_features": WIDTH, "out_features": ROWS})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"modules": ()}, "not known"),
        ({"modules": (ROOT,)}, "trains no embedding"),
        ({"modules": FACTORED}, "factored already"),
        ({"modules": (ROOT, embedding(sparse=True))}, "are sparse"),
        ({"modules": (ROOT, embedding(max_norm=1.0))}, "max_norm and mode"),
        ({"modules": (ROOT, embedding(name="EmbeddingBag", mode="max"))}, "max_norm and mode"),
        ({"modules": (ROOT, embedding(), OUTPUT)}, "shares the weights"),
        ({"modules": (ROOT, embedding(rows=2, width=2))}, "too few rows"),
        ({"modules": (ROOT, embedding("Net.other"))}, "no lookup"),
        ({"modules": (ROOT, embedding(rows=70))}, "less than 2 %"),
    ],
)
def test_where_it_does_not_apply(net, change, said):
    found = WHATIF.detect(baseline(replace(net, **change)))
    assert not found.applicable
    assert said in found.reason
