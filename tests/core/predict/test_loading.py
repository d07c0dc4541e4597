from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.interval import Interval
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.host_cost import HostCost
from skyline.predict.operator_time import OperatorTime
from skyline.predict.predicted_times import Loading, timed
from skyline.report.basis import headline, prediction_basis
from skyline.report.build import profile_report
from skyline.trace.facts import LoaderFact, TimedRead
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, RecordKind
from skyline.whatif.question import Choice, Question

HOST = HostCost(launch_us=10.0, operator_us=2.0, wait_us=4.0, launch_latency_us=5.0, turnaround_us=0.0)
BATCH = (19_267_584, 256)


class Fixed:
    """A predictor of 0.3 ms for every operator."""

    name = "fixed"

    def basis(self, device: GpuSpec) -> str:
        return f"a constant for the {device.name}"

    def predict(self, shapes: Sequence[OperatorShape], device: GpuSpec) -> Sequence[OperatorTime]:
        return [OperatorTime(Interval.exact(300.0), True, "all") for _ in shapes]


def reading(traced: Profile, took_us: float, workers: int) -> Profile:
    fetch = next(record for record in traced.trace.records if record.kind is RecordKind.DATA)
    read = TimedRead(fetch.start_us, fetch.end_us, took_us, BATCH)
    loader = LoaderFact(32, workers, 3200, 1.0, prefetch_factor=2 if workers else None)
    return replace(traced, timed_reads=(read,), loaders=(loader,))


def iteration_ms(traced: Profile, gpu: GpuSpec) -> float:
    return timed(traced, gpu, Fixed(), HOST).times.steps_ms[0]


def test_a_loader_in_the_script_adds_its_time(traced: Profile, gpu: GpuSpec) -> None:
    without = iteration_ms(reading(traced, 0.0, 0), gpu)
    assert iteration_ms(reading(traced, 7_000.0, 0), gpu) == pytest.approx(without + 7.0, rel=0.01)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_bound_the_iteration_by_their_number(traced: Profile, gpu: GpuSpec, workers: int) -> None:
    made = reading(traced, 80_000.0, workers)
    loading = Loading.of(made, in_workers=True)
    assert loading is not None
    bound_ms = (80_000.0 + loading._each(lambda size, _: size / 1e6 * 500.0)) / workers / 1e3
    assert bound_ms < iteration_ms(made, gpu) < 1.05 * bound_ms + 1.0 / workers


def test_enough_workers_leave_the_time_to_take_a_batch(traced: Profile, gpu: GpuSpec) -> None:
    made = reading(traced, 7_000.0, 16)
    loading = Loading.of(made, in_workers=True)
    assert loading is not None
    without = iteration_ms(reading(traced, 0.0, 0), gpu)
    # The predicted iteration is longer than a sixteenth of reading and sending a batch.
    assert iteration_ms(made, gpu) == pytest.approx(without + loading.taking_us / 1e3, rel=0.02)


def test_a_processor_reads_in_the_script(traced: Profile) -> None:
    loading = Loading.of(reading(traced, 7_000.0, 4), in_workers=False)
    assert loading is not None
    assert loading.on_thread_us(1_000.0).value == 7_000.0


@pytest.mark.parametrize(("workers", "code"), [(0, "SKY101"), (2, "SKY102")])
def test_the_first_finding_is_waiting_for_data(
    traced: Profile, gpu: GpuSpec, workers: int, code: str
) -> None:
    analysis = analyse(timed(reading(traced, 80_000.0, workers), gpu, Fixed(), HOST))
    first = analysis.findings[0]
    assert first.code == code
    assert "waiting for data" in first.title


def test_num_workers_is_asked_of_the_predicted_profile(traced: Profile, gpu: GpuSpec) -> None:
    alone = analyse(timed(reading(traced, 80_000.0, 0), gpu, Fixed(), HOST))
    asked = estimate(alone, Question(choices=(Choice("num_workers", "2"),)))
    told = iteration_ms(reading(traced, 80_000.0, 2), gpu)
    assert asked.iteration_ms.value == pytest.approx(told, rel=0.1)


def test_the_headline_names_loading_that_is_left_out(traced: Profile, gpu: GpuSpec) -> None:
    left_out = replace(traced, untimed_loading="the data set cannot be read without the GPU")
    report = profile_report(analyse(timed(left_out, gpu, Fixed(), HOST)))
    assert headline(report).endswith("without data loading")
    assert "cannot be read without the GPU" in " ".join(prediction_basis(report))
    included = profile_report(analyse(timed(reading(traced, 7_000.0, 2), gpu, Fixed(), HOST)))
    assert "without data loading" not in headline(included)
    assert "2 workers" in " ".join(prediction_basis(included))
