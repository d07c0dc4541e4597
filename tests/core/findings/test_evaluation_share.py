from __future__ import annotations

from dataclasses import replace

from skyline.findings.evaluation_share import RULE
from skyline.trace.facts import CallFact, ModuleFact
from skyline.trace.record import Phase

EVALUATION = {"module": "Linear", "grad_enabled": True, "training": False}


def evaluating(profile, only=None, **options):
    """The forward pass of the hand-made iterations, 3 of 10 ms, as one that evaluates."""
    records = tuple(
        replace(one, phase=Phase.OTHER)
        if one.phase is Phase.FORWARD and (only is None or one.iteration in only)
        else one
        for one in profile.trace.records
    )
    call = CallFact("eval forward", 1.0, profile.trace.lines[1], {**EVALUATION, **options})
    model = ModuleFact("Linear", "Linear", True, 10, True, {})
    return replace(profile, trace=replace(profile.trace, records=records), calls=(call,), modules=(model,))


def test_evaluation_in_every_iteration(profile, checked):
    found = checked(RULE, evaluating(profile))
    assert (found.line, found.whatif) == (5, "inference_mode")
    assert 2.0 < found.cost_ms < 3.5
    assert "once in an iteration" in found.evidence[0].text


def test_without_gradients_there_is_no_cure_but_less_of_it(profile, checked):
    assert checked(RULE, evaluating(profile, grad_enabled=False)).whatif is None


def test_a_single_recorded_iteration_that_is_longer_than_others_may_be_an_exception(profile, checked):
    def single(recorded_ms):
        made = evaluating(profile)
        records = tuple(one for one in made.trace.records if one.iteration == 0)
        trace = replace(made.trace, records=records, iterations=made.trace.iterations[:1], allocations=())
        return replace(made, trace=trace, recorded_ms=(recorded_ms,))

    assert checked(RULE, single(10.5)) is not None
    assert checked(RULE, single(13.0)) is None


def test_training_passes_other_models_and_rare_evaluations_are_left_alone(profile, traced, checked):
    assert checked(RULE, profile) is None
    assert checked(RULE, evaluating(profile, training=None)) is None
    assert checked(RULE, evaluating(profile, module="Teacher")) is None
    assert checked(RULE, evaluating(profile, only=(1,))) is None
    assert checked(RULE, traced) is None
