from __future__ import annotations

from dataclasses import astuple, replace

import msgspec
import pytest
from msgspec.json import encode

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import answer_or_reason, estimate, rank
from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.report.build import profile_report, whatif_report
from skyline.report.schema import ProfileReport, WhatIfReport
from skyline.trace.facts import BatchFact
from skyline.trace.profile import Prediction
from skyline.trace.record import Phase
from skyline.whatif.composition import detected_in
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatif_named, whatifs


@pytest.fixture
def analysis(profile):
    return analyse(profile)


def test_lines_sum_to_phases_and_phases_to_the_iteration(analysis):
    phases = analysis.phases
    assert phases.total == pytest.approx(analysis.baseline.iteration_ms.value)
    for phase in (Phase.DATA, Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER):
        assert sum(getattr(row, f"{phase.value}_ms") for row in analysis.lines) == pytest.approx(
            phases[phase]
        )
    assert sum(row.other_ms for row in analysis.lines) == pytest.approx(phases.other + phases.communication)
    assert sum(row.share for row in analysis.lines) == pytest.approx(1.0)


def test_backward_work_is_billed_to_the_forward_line(analysis):
    forward = next(row for row in analysis.lines if row.line == 5)
    assert forward.source == "loss = model(batch)"
    assert (forward.forward_ms, forward.backward_ms) == pytest.approx((2.25, 2.25))
    assert forward.calls == 1
    assert forward.activation_bytes == 30_000_000
    assert forward.module == "Linear"


def test_the_end_of_the_optimizers_call_at_the_very_start_is_no_call(profile):
    trace = profile.trace
    *_, last = sorted(trace.records, key=lambda record: record.start_us)
    tail = replace(last, start_us=trace.iterations[0].start_us - 1.0, duration_us=0.5, iteration=0)
    cut = replace(profile, trace=replace(trace, records=(tail, *trace.records)))
    place = trace.lines[last.line if last.line >= 0 else last.call_line]

    def calls(of):
        return {(row.file, row.line): row.calls for row in analyse(of).lines}[place.file, place.line]

    assert calls(cut) == calls(profile) >= 1


def test_the_rest_comes_last_and_has_no_place(analysis):
    rest = analysis.lines[-1]
    assert (rest.file, rest.line) == ("", 0)
    assert rest.backward_ms == pytest.approx(0.75)


def test_work_without_a_line_goes_to_the_loop_line_that_ran(profile):
    records = tuple(
        replace(record, call_line=4) if record.phase is Phase.BACKWARD and record.line < 0 else record
        for record in profile.trace.records
    )
    lines = analyse(replace(profile, trace=replace(profile.trace, records=records))).lines
    assert next(row for row in lines if row.line == 6).backward_ms == pytest.approx(0.75)
    assert lines[-1].self_ms == pytest.approx(0)


def test_an_empty_question_is_the_baseline(analysis):
    answer = estimate(analysis, Question())
    assert answer.iteration_ms == analysis.baseline.iteration_ms
    assert answer.speedup == 1


def test_speedup_is_of_samples_not_of_iterations(analysis):
    answer = estimate(analysis, Question(batch_size=32))
    assert answer.iteration_ms.value == pytest.approx(18.0)
    assert answer.speedup == pytest.approx(2 / 1.8)
    assert answer.throughput.value == pytest.approx(32 / 0.018)


def test_the_same_batch_size_by_either_road(analysis):
    by_field = estimate(analysis, Question(batch_size=24))
    by_choice = estimate(analysis, Question(choices=(Choice("batch_size", "24"),)))
    assert by_field == by_choice
    assert by_field.name == "batch_size"


def test_beyond_the_measured_sizes_it_says_so(analysis):
    answer = estimate(analysis, Question(batch_size=64))
    assert answer.extrapolated
    assert "extrapolated beyond the measured batch sizes" in answer.assumptions


def test_effects_are_simulated_together_not_multiplied(analysis):
    parts = (Choice("num_workers", "1"), Choice("fused_optimizer"))
    both = estimate(analysis, Question(choices=parts))
    each = [estimate(analysis, Question(choices=(part,))) for part in parts]
    # Taking a batch of 4 MB from a worker costs what making it does: the fused step is all that is gained.
    assert both.iteration_ms.value < each[0].iteration_ms.value
    assert both.name == "combined"
    assert both.value == "fused_optimizer num_workers=1"
    assert both.semantics == "exact"


def test_the_gravest_semantics_counts(analysis):
    answer = estimate(analysis, Question(32, (Choice("fused_optimizer"),)))
    assert answer.semantics == "convergence"


def test_what_cannot_be_said_is_named(profile):
    answer = estimate(analyse(replace(profile, trials=())), Question(32, (Choice("fused_optimizer"),)))
    assert not answer.applicable
    assert answer.reason == "batch_size: no other batch size was measured"


def test_unknown_whatifs_and_values_are_errors(analysis):
    with pytest.raises(UsageError, match="magic"):
        estimate(analysis, Question(choices=(Choice("magic"),)))
    with pytest.raises(UsageError, match="num_workers=x"):
        estimate(analysis, Question(choices=(Choice("num_workers", "x"),)))


def test_rank_puts_gains_first_and_reasons_last(analysis):
    ranked = rank(analysis)
    applicable = [answer for answer in ranked if answer.applicable]
    assert {answer.name for answer in ranked} == set(whatifs())
    assert [one.sure_speedup for one in applicable] == sorted(
        (one.sure_speedup for one in applicable), reverse=True
    )
    assert [answer.applicable for answer in ranked] == sorted((a.applicable for a in ranked), reverse=True)
    assert all(bool(answer.reason) != answer.applicable for answer in ranked)


def test_an_unsure_gain_comes_behind_a_sure_one(analysis, monkeypatch):
    """Five times as fast or a little slower, against a tenth faster for sure."""
    ranges = {"fused_optimizer": Interval(5.0, 0.98, 40.0), "zero_grad": Interval(1.1, 1.08, 1.12)}

    def answers(subject, choices, rewrites=None):
        real = answer_or_reason(subject, choices, rewrites)
        known = ranges[real.name]
        return replace(real, applicable=True, reason=None, speedup=known.value, effect_range=known)

    monkeypatch.setattr("skyline.analysis.estimate.answer_or_reason", answers)
    monkeypatch.setattr("skyline.analysis.estimate.whatifs", lambda: dict.fromkeys(ranges))
    assert [one.name for one in rank(analysis)] == ["zero_grad", "fused_optimizer"]


def test_applicability_offers_values(analysis):
    found = detected_in(analysis.baseline, whatif_named("num_workers"))
    assert found.values == ("1", "2", "4")
    assert found.default == "1"


def test_unseen_samples_leave_throughput_out(profile):
    unseen = replace(profile, batch_size=None, batch=BatchFact((), None))
    report = profile_report(analyse(unseen))
    assert report.throughput is None
    assert report.curve == ()
    assert whatif_report(analyse(unseen)).estimates[0].throughput is None


def test_reports_survive_the_wire(analysis):
    report = profile_report(analysis)
    assert msgspec.json.decode(encode(report), type=ProfileReport, strict=False) == report
    answers = whatif_report(analysis, Question(32, (Choice("num_workers", "1"),)))
    assert msgspec.json.decode(encode(answers), type=WhatIfReport, strict=False) == answers
    assert len(answers.estimates) == 2
    assert answers.combined is not None


def test_the_report_adds_up(analysis):
    report = profile_report(analysis)
    assert report.memory.peak_bytes.value == sum(astuple(report.memory.breakdown))
    assert report.phases.total == pytest.approx(report.iteration_ms.value)
    assert report.unattributed_share == pytest.approx(0.075)
    assert report.batch_size.knob.text == "16"
    assert report.batch_size.reason is None
    assert report.overhead == pytest.approx(1.2)
    assert [point.batch_size for point in report.curve if point.measured] == [8, 16, 32]


def test_a_refused_knob_is_no_knob(profile):
    refused = replace(profile, knobs=replace(profile.knobs, refusal="shared with the evaluation loader"))
    report = profile_report(analyse(refused)).batch_size
    assert report.knob is None
    assert report.reason == "shared with the evaluation loader."
    assert len(report.candidates) == 1


def test_a_gpu_profile_goes_through(gpu_profile):
    analysis = analyse(gpu_profile)
    assert analysis.critical_path.gpu_compute > 0.9
    assert sum(row.self_ms for row in analysis.lines) == pytest.approx(analysis.baseline.iteration_ms.value)
    answer = estimate(analysis, Question(choices=(Choice("amp"),)))
    assert answer.iteration_ms.value == pytest.approx(2.013 / 2, rel=0.05)
    assert answer.provenance == "assumed"


def test_the_curve_and_the_question_give_the_same_answer(analysis):
    """Both stand on one page: the range of a batch size must not depend on where it is read."""
    sizes = [point for point in analysis.curve if point.batch_size != analysis.profile.batch_size]
    assert len(sizes) >= 3
    for point in sizes:
        asked = estimate(analysis, Question(batch_size=point.batch_size)).iteration_ms
        assert (asked.value, asked.low, asked.high) == pytest.approx(
            (point.iteration_ms.value, point.iteration_ms.low, point.iteration_ms.high), rel=1e-6
        )


def test_predicted_sizes_count_the_uncertainty_of_the_script_once(profile):
    said = Prediction("X1", "told", "what was told", Interval(10.0, 5.0, 20.0), 0.0)
    trials = tuple(
        replace(trial, ratios=(0.5 * r, r, 2 * r)) for trial in profile.trials for r in trial.ratios[:1]
    )
    made = analyse(replace(profile, mode="predicted", prediction=said, trials=trials))
    for point in made.curve:
        time = point.iteration_ms
        assert time.low <= 0.5 * time.value * (1 + 1e-9)
        assert time.high >= 2 * time.value * (1 - 1e-9)
        if not point.extrapolated:
            asked = estimate(made, Question(batch_size=point.batch_size)).iteration_ms
            assert (asked.low, asked.high) == pytest.approx((0.5 * asked.value, 2 * asked.value), rel=1e-6)


def test_iterations_that_differ_anyway_say_little_of_what_recording_costs(profile):
    steady = analyse(profile)
    assert not any("overhead" in note for note in steady.notes)
    steps = tuple(step * (1 + 2 * (number % 2)) for number, step in enumerate(profile.times.steps_ms))
    changing = analyse(replace(profile, times=replace(profile.times, steps_ms=steps)))
    assert any("overhead of recording is not conclusive" in note for note in changing.notes)


def test_a_cure_is_named_where_it_is_predicted_to_help(profile):
    full = replace(profile, environment=replace(profile.environment, memory_capacity_bytes=80_000_000))
    analysis = analyse(full)
    given = {finding.code: finding.whatif for finding in analysis.findings}
    told = {finding.code: finding.whatif for finding in profile_report(analysis).findings}
    assert given["SKY401"] == "checkpointing"
    # Nothing is known of the model's blocks here: there is nothing to checkpoint.
    assert told["SKY401"] is None
    assert told["SKY301"] == "fused_optimizer"
