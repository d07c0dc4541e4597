"""Iterations that were tried in other configs, and the what-ifs that are answered with them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skyline.graph.selection import select
from skyline.graph.task import TaskKind
from skyline.trace.facts import LoaderFact
from skyline.trace.record import BareTimes, IterationMark, Phase, Record, RecordKind, Trace
from skyline.trace.trial import Choices, OpTiming, Trial
from skyline.whatif.base import Provenance
from skyline.whatif.baseline import baseline
from skyline.whatif.catalogue.numerics.cpu_narrowing import python_factors
from skyline.whatif.composition import compose
from skyline.whatif.cost.tried_iterations import _RecordPlaces, tried_iterations
from skyline.whatif.question import Choice
from skyline.whatif.registry import whatifs

OPERATOR = RecordKind.OPERATOR
FORWARD, BACKWARD = Phase.FORWARD, Phase.BACKWARD
ROWS = (
    ("aten::linear", FORWARD, "net.first", 1000),
    ("aten::gelu", FORWARD, "net", 400),
    ("aten::linear", FORWARD, "net.second", 500),
    ("AddmmBackward0", BACKWARD, "net.second", 800),
    ("AddmmBackward0", BACKWARD, "net.first", 2000),
)
MODULES = ("net", "net.first", "net.second")
TWO, ONE = 2, 1
NARROW = "bfloat16"


def config(
    threads: int | None, number_format: str, operators: tuple[OpTiming, ...], python_us: dict[Phase, float]
) -> Trial:
    return Trial(Choices(None, threads, number_format), TIMES, operators=operators, python_us=python_us)


def works(*factors: float, casts: float = 0.0) -> tuple[OpTiming, ...]:
    found = [
        OpTiming(name, phase, module, took * factor)
        for (name, phase, module, took), factor in zip(ROWS, factors, strict=True)
    ]
    if casts:
        found.insert(4, OpTiming("ToCopyBackward0", BACKWARD, "net.second", casts))
    return tuple(found)


TIMES = BareTimes((4.8, 4.8), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0))
PYTHON = {FORWARD: 100.0, BACKWARD: 50.0}
TRIALS = (
    config(None, "", works(1, 1, 1, 1, 1), PYTHON),
    config(ONE, "", works(1.9, 2.4, 0.5, 1.6, 1.8), {FORWARD: 120.0, BACKWARD: 50.0}),
    config(None, NARROW, works(0.4, 0.6, 1.2, 0.5, 0.4, casts=80.0), PYTHON),
    config(ONE, NARROW, works(0.5, 1.2, 1.3, 0.6, 0.5, casts=90.0), PYTHON),
)


@pytest.fixture
def tried(profile):
    records: list[Record] = []
    for iteration in range(3):
        start = 10_000.0 * iteration
        for name, phase, module, took in ROWS:
            line = MODULES.index(module)
            records.append(Record(name, OPERATOR, phase, "main", iteration, start, float(took), module=line))
            records.append(
                Record("python", RecordKind.PYTHON, phase, "main", iteration, start + took, 20.0, module=line)
            )
            start += took + 20.0
    marks = tuple(IterationMark(one, 10_000.0 * one, 10_000.0 * one + start) for one in range(3))
    trace = Trace(marks, (), MODULES, tuple(records))
    environment = replace(
        profile.environment, cpu_count=2, intraop_threads=2, cpu_features=("avx512f", "avx512_bf16")
    )
    return replace(
        profile,
        trace=trace,
        times=TIMES,
        environment=environment,
        modules=(),
        loaders=(),
        trials=TRIALS,
    )


def tasks(graph):
    return select(graph, phase=(FORWARD, BACKWARD), kind=TaskKind.CPU)


def test_each_operator_has_the_factor_of_its_place(tried) -> None:
    start = baseline(tried)
    assert start.tried is not None
    graph = start.operators
    one = start.tried.factors(graph, tasks(graph), (TWO, ""), (ONE, ""))
    assert one.reshape(3, 5).tolist() == [pytest.approx([1.9, 2.4, 0.5, 1.6, 1.8])] * 3


def test_casts_count_with_the_operator_before_them(tried) -> None:
    start = baseline(tried)
    graph = start.operators
    narrow = start.tried.factors(graph, tasks(graph), (TWO, ""), (TWO, NARROW))
    assert narrow[:5].tolist() == pytest.approx([0.4, 0.6, 1.2, 0.5 + 80 / 800, 0.4])


def test_a_task_that_has_taken_the_place_of_another_is_not_known(tried) -> None:
    start = baseline(tried)
    graph = start.operators
    changed = replace(start.tried, codes={**start.tried.codes, "aten::gelu": -2})
    factors = changed.factors(graph, tasks(graph), (TWO, ""), (ONE, ""))
    assert np.isnan(factors[1])
    assert np.isfinite(factors[[0, 2, 3, 4]]).all()
    assert np.isnan(start.tried.factors(graph, tasks(graph), (TWO, ""), (8, ""))).all()


def test_the_answers_are_what_was_tried(tried) -> None:
    start = baseline(tried)

    def passes_ms(*choices: Choice) -> float:
        graph = compose(start, choices).scenario.graph
        return float(graph.durations[tasks(graph)].sum()) / start.steps

    stands = passes_ms()
    one, narrow = Choice("cpu_threads", "1"), Choice("amp", "bf16")
    took = np.array([took for *_, took in ROWS], np.float64)
    on_one = (took * [1.9, 2.4, 0.5, 1.6, 1.8]).sum() / took.sum()
    in_narrow = (took * [0.4, 0.6, 1.2, 0.6, 0.4]).sum() / took.sum()
    both = ((took * [0.5, 1.2, 1.3, 0.6, 0.5]).sum() + 90) / took.sum()
    assert passes_ms(one) / stands == pytest.approx(on_one, rel=0.01)
    assert passes_ms(narrow) / stands == pytest.approx(in_narrow, rel=0.01)
    assert passes_ms(one, narrow) / stands == pytest.approx(both, rel=0.01)
    # Computed without them, no operator takes less on one thread than on two.
    without = baseline(replace(tried, trials=()))
    graph = compose(without, (one,)).scenario.graph
    assert (graph.durations >= without.operators.durations).all()


def test_the_answer_says_what_it_rests_on(tried) -> None:
    told = compose(baseline(tried), (Choice("cpu_threads", "1"),)).scenario
    assert any("number of threads" in one for one in told.assumptions)
    assert told.provenance is Provenance.TRIED
    told = compose(baseline(tried), (Choice("amp", "bf16"),)).scenario
    assert any("under autocast" in one for one in told.assumptions)
    assert told.provenance is Provenance.TRIED
    guessed = compose(baseline(replace(tried, trials=())), (Choice("amp", "bf16"),)).scenario
    assert not any("under autocast" in one for one in guessed.assumptions)
    assert guessed.provenance is Provenance.ASSUMED


def test_threads_of_small_operators_are_a_change_if_they_were_tried(tried) -> None:
    def smaller(us: float) -> float:
        return us / 100

    def trial(one: Trial) -> Trial:
        operators = tuple(replace(each, took_us=smaller(each.took_us)) for each in one.operators)
        python_us = {phase: smaller(us) for phase, us in one.python_us.items()}
        return replace(one, times=times, operators=operators, python_us=python_us)

    times = BareTimes(*((smaller(ms),) * 2 for ms in (4.8, 0.0, 0.0, 0.0)))
    records = tuple(replace(one, duration_us=smaller(one.duration_us)) for one in tried.trace.records)
    quick = replace(
        tried, trace=replace(tried.trace, records=records), times=times, trials=tuple(map(trial, TRIALS))
    )
    start = baseline(quick)
    assert start.thread_use.split == 0
    assert whatifs()["cpu_threads"].detect(start).applicable
    told = compose(start, (Choice("cpu_threads", "1"),)).scenario
    assert told.provenance is Provenance.TRIED
    assert start.step_ms(told.graph) > 1.5 * start.step_ms(start.operators)
    assert not any("0 %" in one for one in told.assumptions)
    assert not whatifs()["cpu_threads"].detect(baseline(replace(quick, trials=()))).applicable


def test_the_script_as_it_stands_takes_what_it_did_when_tried(tried) -> None:
    slow = config(None, "", works(1, 3, 1, 1, 1), PYTHON)
    start = baseline(replace(tried, trials=(slow, *TRIALS[1:])))
    usual = baseline(tried)

    def share(of) -> float:
        chosen = tasks(of.operators)
        return of.operators.durations[chosen[1]] / of.operators.durations[chosen].sum()

    assert share(start) > 2 * share(usual)
    assert start.simulated_ms == pytest.approx(usual.simulated_ms, rel=0.02)


def test_python_of_a_phase_takes_what_it_took_when_tried(tried) -> None:
    start = baseline(tried)
    graph = start.operators
    factors = start.tried.python_factors(graph, (TWO, ""), (ONE, ""))
    assert factors[tasks(graph)][:5].tolist() == pytest.approx([1.2, 1.2, 1.2, 1.0, 1.0])


def test_python_under_autocast_takes_what_it_took_when_tried(tried) -> None:
    slower = replace(TRIALS[2], python_us={FORWARD: 150.0, BACKWARD: 50.0})
    start = baseline(replace(tried, trials=(*TRIALS[:2], slower)))
    graph = start.operators
    factors = python_factors(start, graph, NARROW)
    assert factors[tasks(graph)][:5].tolist() == pytest.approx([1.5, 1.5, 1.5, 1.0, 1.0])


def test_an_operator_outside_of_the_layers_has_a_place_of_its_own() -> None:
    record = Record("aten::mul", OPERATOR, FORWARD, "main", 0, 0.0, 10.0)
    trace = Trace((IterationMark(0, 0.0, 10.0),), (), MODULES, (record,))
    places = _RecordPlaces.of(trace)
    assert (places.numbers, places.of_record.tolist()) == ({(FORWARD, "", "aten::mul", 0): 0}, [0])


def test_another_computation_tells_nothing(tried) -> None:
    other = config(ONE, "", (OpTiming("aten::lstm", FORWARD, "net", 3.0),), PYTHON)
    assert tried_iterations(replace(tried, trials=(TRIALS[0], other))) is None
    assert tried_iterations(replace(tried, trials=())) is None
    assert baseline(replace(tried, trials=(TRIALS[0],))).tried is None


def at(batch_size: int, trial: Trial) -> Trial:
    return replace(trial, choices=replace(trial.choices, batch_size=batch_size))


@pytest.fixture
def elsewhere(tried):
    """The same with a quarter and four times the batch, in which one thread takes less and more."""
    smaller = config(ONE, "", works(1.2, 1.2, 0.5, 1.2, 1.2), PYTHON)
    larger = config(ONE, "", works(2.0, 3.0, 0.8, 1.9, 2.0), PYTHON)
    batch_size = tried.batch_size
    trials = (
        *TRIALS,
        at(batch_size // 4, TRIALS[0]),
        at(batch_size // 4, smaller),
        at(batch_size * 4, TRIALS[0]),
        at(batch_size * 4, larger),
    )
    return baseline(replace(tried, trials=trials)).tried


def test_another_batch_has_the_factors_that_were_tried_in_it(tried, elsewhere) -> None:
    graph = baseline(tried).operators

    def first(larger: float) -> float:
        return float(elsewhere.factors(graph, tasks(graph), (TWO, ""), (ONE, ""), larger)[0])

    assert [first(one) for one in (0.25, 1.0, 4.0)] == pytest.approx([1.2, 1.9, 2.0])
    # Half way between two of them, by the power law through both.
    assert first(2.0) == pytest.approx((1.9 * 2.0) ** 0.5)
    assert first(0.5) == pytest.approx((1.9 * 1.2) ** 0.5)
    # Beyond the outermost theirs are the nearest.
    assert [first(one) for one in (0.1, 16.0)] == pytest.approx([1.2, 2.0])
    assert [elsewhere.beyond(one) for one in (0.125, 0.5, 1.0, 3.0, 16.0)] == [0.5, 1.0, 1.0, 1.0, 4.0]


def test_a_manner_that_only_the_own_batch_was_tried_in_keeps_its_factors(tried, elsewhere) -> None:
    graph = baseline(tried).operators
    narrow = elsewhere.factors(graph, tasks(graph), (TWO, ""), (TWO, NARROW), 4.0)
    assert narrow[0] == pytest.approx(0.4)
    alone = baseline(tried).tried
    assert alone.beyond(4.0) == 4.0
    assert alone.factors(graph, tasks(graph), (TWO, ""), (ONE, ""), 4.0)[0] == pytest.approx(1.9)


PAIRS, SAMPLES = 16.0, 4.0


@pytest.fixture
def pairs(tried):
    """With four times the batch the second layer, which stands for attention over it, takes sixteen times as long.

    In 16 bits that layer takes as long as before, and all others a quarter.
    """
    large, by_size = tried.batch_size * 4, (SAMPLES, SAMPLES, PAIRS, SAMPLES, SAMPLES)

    def timed(operators: tuple[OpTiming, ...]) -> BareTimes:
        back_ms = (sum(one.took_us for one in operators if one.phase is BACKWARD) + PYTHON[BACKWARD]) / 1e3
        step_ms = (
            back_ms + (sum(one.took_us for one in operators if one.phase is FORWARD) + PYTHON[FORWARD]) / 1e3
        )
        return BareTimes((step_ms,) * 2, (0.0,) * 2, (back_ms,) * 2, (0.0,) * 2)

    own, grown = works(1, 1, 1, 1, 1), works(*by_size)
    ratio = timed(grown).steps_ms[0] / timed(own).steps_ms[0]
    alone = replace(
        at(large, TRIALS[0]), times=timed(grown), ratios=(ratio,) * 6, peak_bytes=2**20, operators=grown
    )
    narrow = config(None, NARROW, works(0.25, 0.25, 1, 0.25, 0.25), PYTHON)
    narrow_there = config(None, NARROW, works(1, 1, PAIRS, 1, 1), PYTHON)
    return replace(
        tried,
        times=timed(own),
        trials=(replace(TRIALS[0], times=timed(own)), narrow, alone, at(large, narrow_there)),
    )


def test_beyond_the_tried_batches_operators_go_on_as_between_the_outermost(pairs) -> None:
    start = baseline(pairs)
    graph = start.operators
    growth = start.tried.growth(graph, 16.0)[tasks(graph)][:5]
    assert growth.tolist() == pytest.approx([16.0, 16.0, 256.0, 16.0, 16.0])
    # A smaller batch than any that was tried is on the same line.
    assert start.tried.growth(graph, 0.25)[tasks(graph)][2] == pytest.approx(1 / 16)


def test_in_a_batch_beyond_the_tried_ones_amp_shortens_what_is_left_to_shorten(pairs) -> None:
    """Attention has become most of the iteration, and 16 bits gain nothing in it."""
    start = baseline(pairs)
    larger = Choice("batch_size", str(6 * start.profile.batch_size))

    def passes_us(*choices: Choice) -> float:
        graph = compose(start, choices).scenario.graph
        return float(graph.durations[tasks(graph)].sum())

    took = np.array([took for *_, took in ROWS], np.float64)
    grown = took * [6, 6, 36, 6, 6]
    narrow = (grown * [0.25, 0.25, 1, 0.25, 0.25]).sum() / grown.sum()
    # Products of layers gain a little more than in the tried batch, as less of their time is the cast of a weight.
    assert passes_us(larger, NARROWED) / passes_us(larger) == pytest.approx(narrow, rel=0.1)


def test_the_range_beyond_the_tried_batches_contains_what_the_operators_come_to(pairs) -> None:
    """The curve goes on as a line, and an iteration of pairs bends upwards."""
    start = baseline(pairs)
    made = compose(start, (Choice("batch_size", str(6 * start.profile.batch_size)),)).scenario
    took = np.array([took for *_, took in ROWS], np.float64)
    python_us = sum(PYTHON.values())
    ratio = ((took * [6, 6, 36, 6, 6]).sum() + python_us) / (took.sum() + python_us)
    likely_ms = start.step_ms(made.graph)
    assert likely_ms < 0.99 * ratio * start.iteration_ms.value
    assert likely_ms + made.above_ms >= 0.99 * ratio * start.iteration_ms.value


def test_trials_beside_something_else_tell_nothing(tried) -> None:
    slow = tuple(replace(one, operators=works(*(3.0,) * 5)) for one in TRIALS)
    assert tried_iterations(replace(tried, trials=slow)) is None


def test_a_batch_that_took_something_else_than_in_the_curve_is_left_out(tried) -> None:
    batch_size = tried.batch_size * 4
    long = replace(TIMES, steps_ms=(15.0, 15.0))
    trials = (*TRIALS, *(replace(at(batch_size, one), times=long) for one in TRIALS))
    found = tried_iterations(replace(tried, trials=trials))
    assert found is not None
    assert found.elsewhere_us == {}


SLOWNESS = st.lists(st.floats(0.5, 2.0), min_size=len(ROWS), max_size=len(ROWS))
ON_ONE, NARROWED = Choice("cpu_threads", "1"), Choice("amp", "bf16")


@settings(
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(whole=SLOWNESS, one=SLOWNESS, narrow=SLOWNESS, both=SLOWNESS)
def test_a_part_of_a_batch_takes_what_a_batch_of_its_size_takes_whatever_else_changes(
    tried, whole, one, narrow, both
) -> None:
    """Law: passes over a batch in two parts gain by another change what passes over half the batch gain by it."""
    half = tried.batch_size // 2
    halved = works(*(0.5 * factor for factor in whole))
    step_ms = (sum(took.took_us for took in halved) + sum(PYTHON.values())) / 1e3
    times = replace(TIMES, steps_ms=(step_ms, step_ms))
    ratio = step_ms / TIMES.steps_ms[0]
    alone = Trial(Choices(half), times, (ratio,) * 6, peak_bytes=2**20, operators=halved, python_us=PYTHON)

    def elsewhere(trial: Trial, factors: list[float]) -> Trial:
        own = [0.5 * by_size * by_config for by_size, by_config in zip(whole, factors, strict=True)]
        return at(half, replace(trial, operators=works(*own)))

    others = (elsewhere(TRIALS[1], one), elsewhere(TRIALS[2], narrow), elsewhere(TRIALS[3], both))
    start = baseline(replace(tried, trials=(*TRIALS, alone, *others)))

    def passes_us(*choices: Choice) -> float:
        graph = compose(start, choices).scenario.graph
        return float(graph.durations[select(graph, phase=(FORWARD, BACKWARD), kind=TaskKind.CPU)].sum())

    parts, smaller = Choice("grad_accumulation", "2"), Choice("batch_size", str(half))
    for others_made in ((ON_ONE,), (NARROWED,), (ON_ONE, NARROWED)):
        in_parts = passes_us(parts, *others_made) / passes_us(parts)
        in_smaller = passes_us(smaller, *others_made) / passes_us(smaller)
        # Calls of casts are counted by the pass, of which there are two in parts.
        assert in_parts == pytest.approx(in_smaller, rel=2e-3)
    # The whole batch in parts of the recorded size is the recorded work, as often as there are parts.
    assert compose(start, (parts, ON_ONE)).scenario.pass_factor(start) == 0.5


@pytest.mark.parametrize("choice", [ON_ONE, NARROWED], ids=str)
def test_an_answer_is_no_surer_than_the_rounds_that_it_rests_on(tried, choice) -> None:
    """Rounds apart by a tenth, and one that something else disturbed."""
    rounds = (0.95, 1.0, 1.05, 1.0, 1.05, 0.95, 4.0)
    scattered = baseline(replace(tried, trials=tuple(replace(one, ratios=rounds) for one in TRIALS)))
    steady = baseline(tried)
    sure, unsure = (compose(one, (choice,)).scenario for one in (steady, scattered))
    step_ms = steady.step_ms(sure.graph)
    wider = (unsure.above_ms**2 - sure.above_ms**2) ** 0.5 / step_ms
    assert wider == pytest.approx(1.645 * 1.4826 * 0.05 / 7**0.5, rel=0.01)
    assert unsure.below_ms > sure.below_ms


def with_workers(tried, *rounds, workers=2):
    """Tried in turns with loader workers that keep up: the ratios of one thread, and of both formats."""
    found = [
        replace(trial, ratios=ratios) if ratios else trial
        for trial, ratios in zip(tried.trials, ((), *rounds), strict=True)
    ]
    times = replace(tried.times, data_ms=(0.1,) * len(tried.times.steps_ms))
    loader = LoaderFact(16, workers, None, 1.0)
    return baseline(replace(tried, trials=tuple(found), loaders=(loader,), times=times))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (["cpu_threads=1"], 0.93),
        # Both were tried together: 0.6 is not 0.93 of what autocast alone takes.
        (["amp=bf16", "cpu_threads=1"], 0.6 / 0.7),
    ],
)
def test_other_threads_beside_workers_take_what_they_took_there(tried, choices, expected):
    start = with_workers(tried, (0.92, 0.93, 0.94), (0.7,) * 3, (0.6,) * 3)
    *before, _ = [Choice.parse(one) for one in choices]
    scenario = compose(start, [Choice.parse(one) for one in choices]).scenario
    now_ms = start.step_ms(compose(start, before).scenario.graph)
    assert start.step_ms(scenario.graph) == pytest.approx(expected * now_ms, rel=0.001)
    assert any("while the loader's workers run" in one for one in scenario.assumptions)


def test_other_threads_are_modelled_where_rounds_disagree_or_no_worker_ran(tried):
    """One round may have been disturbed, and so may rounds that differ."""
    steady = (0.92, 0.93, 0.94)
    for rounds, workers in (((0.93,), 2), ((0.5, 0.93, 1.4), 2), (steady, 0)):
        start = with_workers(tried, rounds, (0.7,) * 3, (0.6,) * 3, workers=workers)
        scenario = compose(start, [Choice.parse("cpu_threads=1")]).scenario
        assert not any("while the loader's workers run" in one for one in scenario.assumptions)
