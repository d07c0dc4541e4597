"""Linear layers multiply by two small factors, LSTMs get their weights made in each pass, and the update shrinks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.errors import UsageError
from skyline.graph.task import PHASE
from skyline.interval import Interval
from skyline.trace.facts import MemoryFact, ModuleFact, OptimizerFact
from skyline.trace.record import BareTimes, IterationMark, OperatorShape, Phase, Record, RecordKind, Trace
from skyline.trace.trial import KroneckerTrial
from skyline.whatif.base import Grain, Provenance, Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.models.kronecker import WHATIF
from skyline.whatif.catalogue.models.kronecker_factors import Structure, kronecker_layers
from skyline.whatif.composition import compose
from skyline.whatif.cost.narrow_rate import HALF_RATE
from skyline.whatif.cost.operator_call import MOST_US
from skyline.whatif.cost.small_factors import SmallFactor, added_us
from skyline.whatif.cost.thread_scaling import CALL_US
from skyline.whatif.question import Choice

ROWS, INPUTS, OUTPUTS, BLOCKS = 64, 256, 512, 4
WEIGHT, HIDDEN = INPUTS * OUTPUTS, 128
LSTM_WEIGHTS = 4 * HIDDEN * INPUTS + 4 * HIDDEN * HIDDEN
BYTES_PER_US, MADE = 5e3, 4
OF_LSTM = {
    "input_size": INPUTS,
    "hidden_size": HIDDEN,
    "num_layers": 1,
    "bidirectional": False,
    "proj_size": 0,
}


def linear(path, inputs, outputs, **options):
    given = {"in_features": inputs, "out_features": outputs, "bias": True, **options}
    return ModuleFact(path, "Linear", True, inputs * outputs, True, given)


def lstm(count=LSTM_WEIGHTS + 8 * HIDDEN, **options):
    return ModuleFact("Net.lstm", "LSTM", True, count, True, {**OF_LSTM, **options})


ROOT = ModuleFact("Net", "Net", False, 0, True, {})
FC = linear("Net.fc", INPUTS, OUTPUTS)
FACTORS = BLOCKS**2 + WEIGHT // BLOCKS**2


def profile_of(profile, module, numbers):
    """Each iteration: the module 1 ms forward and 2 ms backward, an update of 4 ms that is traffic."""
    flops = 2 * ROWS * WEIGHT
    shapes = (
        OperatorShape("aten::linear", ((ROWS, INPUTS), (OUTPUTS, INPUTS)), ("float32",) * 2, flops=flops),
        OperatorShape("AddmmBackward0", ((ROWS, OUTPUTS),), ("float32",), flops=2 * flops),
        OperatorShape("aten::addcdiv_", ((OUTPUTS, INPUTS),) * 3, ("float32",) * 3),
    )
    work = [
        ("aten::linear", Phase.FORWARD, 1000, 1, 0),
        ("AddmmBackward0", Phase.BACKWARD, 2000, 1, 1),
        ("aten::addcdiv_", Phase.OPTIMIZER, 0, 0, -1),
        ("aten::addcdiv_", Phase.OPTIMIZER, 4000, 0, 2),
    ]
    records, marks, clock = [], [], 0.0
    for iteration in range(3):
        begin = clock
        for name, phase, took, of_module, shape in work:
            place = {"module": of_module, "shape": shape}
            records.append(Record(name, RecordKind.OPERATOR, phase, "main", iteration, clock, took, **place))
            clock += took
        marks.append(IterationMark(iteration, begin, clock))
    return replace(
        profile,
        trace=Trace(tuple(marks), (), ("Net", module.path), tuple(records), shapes=shapes),
        times=BareTimes((7.0,) * 9, (0.0,) * 9, (2.0,) * 9, (4.0,) * 9),
        modules=(ROOT, module),
        memory=MemoryFact(4 * numbers, 4 * numbers, 8 * numbers, 0),
        peak_bytes=16 * numbers,
        optimizers=(OptimizerFact("Adam", 1, 4, numbers, 8 * numbers, {}),),
        loaders=(),
        trials=(),
        calls=(),
    )


@pytest.fixture
def net(profile):
    return profile_of(profile, FC, WEIGHT)


@pytest.fixture
def recurrent(profile):
    return profile_of(profile, lstm(), LSTM_WEIGHTS)


def asked(profile, value=str(BLOCKS)):
    start = baseline(profile)
    before = Scenario.of(start, Grain.OPERATORS)
    return start, before, WHATIF.transform(before, value, start)


def slower(side):
    return 1 + HALF_RATE.value / side


def factors_us(profile, now_us, *, back):
    """Operations of the large product over those of one, each by its narrowest side; two calls; all next to it."""
    large = ROWS * BLOCKS * (INPUTS // BLOCKS) * (OUTPUTS // BLOCKS) * slower(INPUTS // BLOCKS)
    ratio = large / (ROWS * WEIGHT * slower(ROWS))
    beside = added_us(
        SmallFactor(ROWS, INPUTS, OUTPUTS, BLOCKS),
        profile.environment.intraop_threads,
        Interval.exact(BYTES_PER_US),
        "value",
        back=back,
    )
    return 2 * CALL_US + (now_us - CALL_US) * ratio + beside


def test_linear_layers_multiply_by_both_factors_and_the_update_shrinks(net):
    start, _, changed = asked(net)
    step = 4000 * FACTORS / WEIGHT
    # In each pass nine operators more, each as long as a small one: none was recorded here.
    calls = 2 * 9 * MOST_US
    assert start.step_ms(changed.graph) == pytest.approx(
        (factors_us(net, 1000, back=False) + factors_us(net, 2000, back=True) + calls + step) / 1e3, rel=1e-6
    )
    assert changed.below_ms > 0
    assert changed.above_ms > 0
    assert changed.provenance is Provenance.ASSUMED


def test_the_first_layer_whose_input_needs_no_gradient_has_all_its_rows(net):
    """Its backward pass has half of the arithmetic; what goes between both factors is as much."""
    trace = net.trace
    half = replace(trace.shapes[1], flops=trace.shapes[1].flops // 2)
    first = replace(net, trace=replace(trace, shapes=(trace.shapes[0], half, trace.shapes[2])))
    start, _, expected = asked(net)
    _, _, changed = asked(first)
    assert start.step_ms(changed.graph) == pytest.approx(start.step_ms(expected.graph), rel=1e-9)


def test_a_layer_without_a_bias_adds_none(net):
    plain = 8 * ROWS * OUTPUTS / BYTES_PER_US
    start, _, with_bias = asked(net)
    without = replace(net, modules=(ROOT, linear("Net.fc", INPUTS, OUTPUTS, bias=False)))
    _, _, changed = asked(without)
    saved = start.step_ms(with_bias.graph) - start.step_ms(changed.graph)
    assert saved == pytest.approx((plain + plain / 2) / 1e3)


def test_memory_loses_the_weight_and_keeps_what_goes_between_the_factors(net):
    _, before, changed = asked(net)
    less = WEIGHT - FACTORS
    assert before.memory.parameters - changed.memory.parameters == pytest.approx(4 * less)
    assert before.memory.optimizer - changed.memory.optimizer == pytest.approx(8 * less)
    had, has = (one.memory.levels.peak().gradients for one in (before, changed))
    assert had - has == pytest.approx(4 * less)
    assert (
        changed.memory.levels.peak().activations - before.memory.levels.peak().activations
        == 4 * ROWS * OUTPUTS
    )


def test_weights_of_lstms_are_made_in_each_pass(recurrent):
    """Both passes keep their products, and go over the weights."""
    start, before, changed = asked(recurrent)
    after = sum(BLOCKS**2 + 4 * HIDDEN * side // BLOCKS**2 for side in (INPUTS, HIDDEN))
    made = MADE * 4 * LSTM_WEIGHTS / BYTES_PER_US
    expected = 1000 + made + 2000 + made + 4000 * after / LSTM_WEIGHTS
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=1e-6)
    assert (
        changed.memory.levels.peak().activations - before.memory.levels.peak().activations == 4 * LSTM_WEIGHTS
    )
    assert any("made whole" in one for one in changed.assumptions)


def tried(rows, inner, columns, forward_us, backward_us):
    return KroneckerTrial(rows, inner, columns, BLOCKS, forward_us, backward_us)


def test_a_layer_that_was_tried_takes_what_its_trial_took(net):
    """More time is added as it is, with the calls in it; less time shortens the product in proportion."""
    trial = tried(ROWS, INPUTS, OUTPUTS, (1100.0, 1350.0), (2000.0, 1500.0))
    start, _, changed = asked(replace(net, kronecker_trials=(trial,)))
    step = 4000 * FACTORS / WEIGHT
    assert start.step_ms(changed.graph) == pytest.approx((1250 + 1500 + step) / 1e3, rel=1e-6)
    assert changed.provenance is Provenance.TRIED
    assert changed.below_ms == pytest.approx((0.2 * 250 + 0.3 * 500) / 1e3, rel=0.1)


def test_a_layer_that_was_tried_on_one_thread_as_well(net):
    """The layer as it was tried on one thread counts, not the product in whose place it is."""
    threads = replace(net.environment, cpu_count=2, intraop_threads=2)
    own = tried(ROWS, INPUTS, OUTPUTS, (1000.0, 1000.0), (2000.0, 2000.0))
    there = replace(own, forward_us=(0.0, 1200.0), backward_us=(0.0, 2000.0), threads=1)
    start = baseline(replace(net, environment=threads, kronecker_trials=(own, there)))
    both = compose(start, (Choice("kronecker", str(BLOCKS)), Choice("cpu_threads", "1")))
    alone = compose(start, (Choice("kronecker", str(BLOCKS)),))
    tasks = start.operators.tasks

    def phase_ms(made, phase):
        here = tasks.phase == PHASE[phase]
        return made.scenario.graph.durations[here].sum() / 3e3

    assert phase_ms(both, Phase.FORWARD) - phase_ms(alone, Phase.FORWARD) == pytest.approx(0.2, rel=0.02)
    assert phase_ms(both, Phase.BACKWARD) == pytest.approx(phase_ms(alone, Phase.BACKWARD), rel=0.02)


def test_a_trial_with_fewer_rows_or_other_blocks(net):
    fewer = tried(ROWS // 4, INPUTS, OUTPUTS, (275.0, 300.0), (500.0, 500.0))
    start, _, changed = asked(replace(net, kronecker_trials=(fewer,)))
    step = 4000 * FACTORS / WEIGHT
    assert start.step_ms(changed.graph) == pytest.approx((1000 + 4 * 25 + 2000 + step) / 1e3, rel=1e-6)
    others = replace(fewer, blocks=2), replace(fewer, inner=INPUTS // 2), replace(fewer, rows=0)
    _, _, modelled = asked(net)
    _, _, without = asked(replace(net, kronecker_trials=others))
    assert start.step_ms(without.graph) == start.step_ms(modelled.graph)
    assert without.provenance is Provenance.ASSUMED


def test_weights_of_an_lstm_that_were_tried(recurrent):
    first, second = (
        tried(0, side, 4 * HIDDEN, (0.0, forward_us), (0.0, 2 * forward_us))
        for side, forward_us in ((INPUTS, 50.0), (HIDDEN, 30.0))
    )
    start, _, changed = asked(replace(recurrent, kronecker_trials=(first, second)))
    after = sum(BLOCKS**2 + 4 * HIDDEN * side // BLOCKS**2 for side in (INPUTS, HIDDEN))
    expected = 1000 + 80 + 2000 + 160 + 4000 * after / LSTM_WEIGHTS
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=1e-6)
    assert changed.provenance is Provenance.TRIED
    start, _, one_missing = asked(replace(recurrent, kronecker_trials=(first,)))
    assert one_missing.provenance is Provenance.ASSUMED


def test_free_numbers_are_added_to_a_whole_weight(net):
    start, before, changed = asked(net, f"{BLOCKS}:0.01")
    made = MADE * 4 * WEIGHT / BYTES_PER_US
    free = round(0.01 * WEIGHT)
    expected = 1000 + made + 2000 + made + 4000 * (FACTORS + free) / WEIGHT
    assert start.step_ms(changed.graph) == pytest.approx(expected / 1e3, rel=1e-3)
    less = before.memory.parameters - changed.memory.parameters
    assert less == pytest.approx(4 * (WEIGHT - FACTORS - free))


def test_values_are_blocks_around_four(net):
    found = WHATIF.detect(baseline(net))
    assert (found.applicable, found.default, found.values) == (True, "4", ("2", "4", "8"))


@pytest.mark.parametrize("value", ["1", "much", "4:", "4:much", "4:0", "4:0.9", "4:nan", ":0.1"])
def test_other_values_are_refused(net, value):
    with pytest.raises(UsageError):
        asked(net, value)


def test_sizes_need_equal_parts(net):
    assert kronecker_layers(net, Structure(3)) == ()
    assert "no linear layer and no LSTM smaller" in asked(net, "3")[2].reason
    uneven = replace(net, modules=(ROOT, linear("Net.fc", 255, 511)))
    assert "equal parts" in WHATIF.detect(baseline(uneven)).reason
    # From one number to many: the outputs divide, the input does not.
    single = replace(net, modules=(ROOT, linear("Net.fc", 1, 512), linear("Net.out", 512, 1)))
    assert "inputs and outputs that both divide" in WHATIF.detect(baseline(single)).reason


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (ROOT, "trains no linear layer"),
        (replace(FC, trainable=False), "trains no linear layer"),
        (replace(FC, library=False), "trains no linear layer"),
        (lstm(proj_size=64), "trains no linear layer"),
        # Its weights are factors elsewhere.
        (lstm(count=8 * HIDDEN), "trains no linear layer"),
        (replace(FC, path="Net.other"), "no work of such a layer"),
    ],
)
def test_where_it_does_not_apply(net, module, said):
    found = WHATIF.detect(baseline(replace(net, modules=(ROOT, module))))
    assert not found.applicable
    assert said in found.reason


def test_lstms_of_several_layers_and_directions_have_more_weights(recurrent):
    deep = lstm(count=10**9, num_layers=2, bidirectional=True)
    [layer] = kronecker_layers(replace(recurrent, modules=(ROOT, deep)), Structure(BLOCKS))
    wide = 4 * HIDDEN
    assert layer.weights == ((wide, INPUTS), (wide, HIDDEN)) * 2 + ((wide, 2 * HIDDEN), (wide, HIDDEN)) * 2
