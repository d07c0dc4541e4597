"""The verdict: the cause that bounds a step, and the change that is recommended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.verdict import WORTH, verdict
from skyline.graph.task import PHASE
from skyline.interval import Interval
from skyline.report.build import profile_report, whatif_report
from skyline.report.schema import EstimateReport
from skyline.trace.facts import MachineLoad
from skyline.trace.record import BareTimes, CodeLine, Phase, PhaseTimes, RecordKind
from skyline.whatif.question import Choice, Question


@pytest.fixture
def subject(profile):
    return analyse(profile).baseline


@pytest.fixture
def estimates(profile) -> tuple[EstimateReport, ...]:
    return whatif_report(analyse(profile)).estimates


def an_estimate(
    estimates, name: str, low: float, *, semantics="exact", rewrite="available", **further
) -> EstimateReport:
    speedup = Interval(low * 1.2, low, low * 1.4)
    return replace(
        estimates[0], name=name, value="", title=f"use {name}", applicable=True, present=None, speedup=low * 1.2,
        speedup_range=speedup, effect_range=speedup, semantics=semantics, rewrite=rewrite, **further,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "words"),
    [
        (PhaseTimes(data=6.0, forward=2.0, backward=1.0), "The script waits for data for 67 % of the step."),
        (
            PhaseTimes(optimizer=5.0, forward=2.0, backward=2.0),
            "The optimizer's update takes 56 % of the step.",
        ),
        (
            PhaseTimes(data=4.0, forward=3.0, backward=3.0),
            "The model's forward and backward passes take 60 % of the step.",
        ),
        (PhaseTimes(), "No phase of the step was recorded."),
    ],
)
def test_the_longest_part_of_a_step_on_a_cpu_is_named(subject, times, words) -> None:
    assert verdict(replace(subject, phases=times), ()).bound == words


OTHER = "ode outside the model, the loader and the optimizer takes"


@pytest.mark.parametrize(
    ("times", "named"),
    [
        (PhaseTimes(forward=4.0, backward=4.0, other=1.4), False),
        (PhaseTimes(forward=4.0, backward=4.0, other=2.0), True),
        (PhaseTimes(forward=4.0, backward=4.0, optimizer=2.1, other=2.0), False),
        (PhaseTimes(forward=1.0, backward=1.0, other=8.0), True),
    ],
    ids=["less than 15 %", "beside the model", "less than the update", "most of the step"],
)
def test_code_outside_of_the_phases_is_named_where_it_is_the_largest_part_to_change(
    subject, times, named
) -> None:
    assert (OTHER in verdict(replace(subject, phases=times), ()).bound) == named


@pytest.mark.parametrize(("part", "known"), [(0.6, True), (0.4, False)])
def test_the_place_belongs_to_the_part_that_is_named_last(subject, monkeypatch, part, known) -> None:
    other, model = CodeLine("train.py", 31), CodeLine("train.py", 12)

    def dearest(graph, chosen, cost_us):
        ours = set(graph.tasks.phase[chosen].tolist()) <= {PHASE[Phase.OTHER]}
        return ((other, part * cost_us.sum()),) if ours else ((model, cost_us.sum()),)

    monkeypatch.setattr("skyline.analysis.verdict.dearest_lines", dearest)
    found = verdict(replace(subject, phases=PhaseTimes(forward=4.0, backward=4.0, other=2.0)), ())
    words = {
        True: f"The model's forward and backward passes take 80 % of the step, and c{OTHER} 20 %.",
        False: f"C{OTHER} 20 % of the step, and the model's forward and backward passes take 80 %.",
    }
    assert found.bound == words[known]
    assert found.line == (31 if known else 12)


@pytest.mark.parametrize(("logging_ms", "words"), [(3.6, "Logging takes"), (2.4, f"C{OTHER}")])
def test_work_that_the_run_told_apart_has_its_name(profile, subject, logging_ms, words) -> None:
    times = BareTimes((10.0,) * 5, (0.0,) * 5, (0.0,) * 5, (0.0,) * 5, logging_ms=(logging_ms,) * 5)
    phases = PhaseTimes(forward=4.0, other=6.0)
    logs = replace(subject, profile=replace(profile, times=times), phases=phases)
    assert verdict(logs, ()).bound == f"{words} 60 % of the step."


def test_the_line_with_the_largest_part_is_the_place(profile, subject) -> None:
    found = verdict(replace(subject, phases=PhaseTimes(optimizer=1.0)), ())
    largest = max(analyse(profile).lines, key=lambda line: line.optimizer_ms)
    assert (found.file, found.line) == (largest.file, largest.line)


@pytest.mark.parametrize(
    ("kernel_us", "words"), [(50.0, "Python and kernel launches"), (5000.0, "its kernels bound the step")]
)
def test_a_gpu_that_waits_and_one_that_works(gpu_profile, recorded_gpu, kernel_us, words) -> None:
    found = verdict(analyse(replace(gpu_profile, trace=recorded_gpu(kernel_us=kernel_us))).baseline, ())
    assert words in found.bound


def test_the_share_of_a_gpu_counts_streams_side_by_side_once(gpu_profile, recorded_gpu) -> None:
    """Two streams at work all the time do two iterations' worth of work; the sentence says how long any works."""
    trace = recorded_gpu(iterations=1, kernels=4, kernel_us=400)
    work = [one for one in trace.records if one.kind is RecordKind.KERNEL]
    beside = tuple(replace(one, lane="stream 8", correlation=0) for one in work)
    step_ms = 2 * sum(one.duration_us for one in work) / 1e3
    profile = replace(
        gpu_profile,
        trace=replace(trace, records=(*trace.records, *beside)),
        times=replace(gpu_profile.times, steps_ms=(step_ms,) * 5),
    )
    report = profile_report(analyse(profile))
    assert report.gpu_phases is not None
    assert report.gpu_phases.total == pytest.approx(step_ms)
    assert report.gpu_busy_share == pytest.approx(0.5)
    assert verdict(analyse(profile).baseline, ()).bound.startswith("The GPU works for 50 % of the step. ")


def test_the_surest_gain_is_recommended(subject, estimates) -> None:
    likely = an_estimate(estimates, "compile", 1.1)
    surer = an_estimate(estimates, "fused_optimizer", 1.3)
    found = verdict(subject, (likely, surer))
    assert (found.choice, found.rewritten) == ("fused_optimizer", True)
    assert found.advice.startswith("Use fused_optimizer: 1.56x (1.30–1.82x)")


def test_a_recommended_gain_may_be_uncertain_in_absolute_terms_and_then_says_so(subject, estimates) -> None:
    sure = an_estimate(estimates, "fused_optimizer", 1.05)
    assert "likely" not in verdict(subject, (sure,)).advice
    compared = replace(sure, speedup_range=Interval(1.1, 0.97, 1.2), effect_range=Interval(1.1, 1.05, 1.15))
    found = verdict(subject, (compared,))
    assert found.choice == "fused_optimizer"
    assert "1.10x (0.97–1.20x)" in found.advice
    assert found.advice.endswith("This gain is likely, not certain: verify it.")


def test_a_change_of_training_is_only_named_where_no_other_helps(subject, estimates) -> None:
    batch = an_estimate(estimates, "batch_size", 2.0, semantics="convergence")
    other = an_estimate(estimates, "amp", 1.1, semantics="numerics")
    assert verdict(subject, (batch, other)).choice == "amp"
    alone = verdict(subject, (batch,))
    assert alone.choice == "batch_size"
    assert alone.advice.startswith("No change that keeps convergence unchanged")
    assert alone.advice.endswith("convergence may change.")


def test_a_change_that_can_be_written_comes_before_one_that_cannot(subject, estimates) -> None:
    by_hand = an_estimate(estimates, "compile", 1.5, rewrite="refused", rewrite_reason="no model is known")
    written = an_estimate(estimates, "amp", 1.1)
    assert verdict(subject, (by_hand, written)).choice == "amp"
    alone = verdict(subject, (by_hand,))
    assert (alone.choice, alone.rewritten, alone.obstacle) == ("compile", False, "no model is known")


@pytest.mark.parametrize("further", [{"present": "on"}, {"applicable": False}, {"name": "gpu"}])
def test_changes_that_are_not_open_are_not_recommended(subject, estimates, further) -> None:
    one = replace(an_estimate(estimates, "amp", 2.0), **further)
    assert verdict(subject, (one,)).choice is None


def test_a_gain_within_its_uncertainty_is_none(subject, estimates) -> None:
    found = verdict(subject, (an_estimate(estimates, "amp", WORTH - 0.01),))
    assert found.choice is None
    assert "2.0 %" in found.advice


def test_gains_that_are_likely_but_not_sure_are_counted(subject, estimates) -> None:
    likely = [
        an_estimate(estimates, name, 0.95, semantics=semantics)
        for name, semantics in (("amp", "numerics"), ("compile", "exact"), ("prune", "model"))
    ]
    slower = an_estimate(estimates, "checkpointing", 0.7)
    said = "No change that keeps convergence unchanged is certain to gain 2.0 % or more; 2 may."
    assert verdict(subject, (*likely, slower)).advice == said
    assert verdict(subject, (slower,)).advice == said.replace("is certain to gain", "gains").replace(
        "; 2 may", ""
    )


def test_a_busy_machine_is_a_caution(profile, subject) -> None:
    assert not verdict(subject, ()).caution
    load = MachineLoad(own_cores=0.5, others_cores=1.5, cores=2)
    busy = replace(subject, profile=replace(profile, load=load), iteration_ms=Interval(10.0, 8.0, 12.0))
    assert "20 %" in verdict(busy, ()).caution


def test_a_step_time_that_may_be_anything_is_a_caution_on_any_machine(profile, subject) -> None:
    load = MachineLoad(own_cores=1.5, others_cores=0.0, cores=2)
    wide = replace(subject, profile=replace(profile, load=load), iteration_ms=Interval(10.0, 8.0, 400.0))
    said = "Iterations differ much: the step time may be 8.00 ms as well as 400.0 ms. Measure again."
    assert verdict(wide, ()).caution == said
    load = replace(load, others_cores=1.5)
    busy = replace(wide, profile=replace(profile, load=load))
    assert verdict(busy, ()).caution == said.replace("Iterations differ much", "The machine was busy")
    steady = replace(wide, iteration_ms=Interval(10.0, 8.0, 12.0))
    assert not verdict(steady, ()).caution


def test_the_report_of_all_changes_has_it_and_that_of_one_has_not(profile) -> None:
    analysis = analyse(profile)
    assert whatif_report(analysis).verdict is not None
    assert whatif_report(analysis, Question(choices=(Choice("fused_optimizer"),))).verdict is None
