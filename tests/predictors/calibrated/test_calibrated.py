from dataclasses import replace
from itertools import islice

import pytest

from skyline.calibrate.case import Case
from skyline.calibrate.case_order import ordered_cases
from skyline.calibrate.designs import designs
from skyline.calibrate.machine import CalibratedDevice
from skyline.calibrate.store import CaseTime, append, path_of
from skyline.predict import registry
from skyline.predict.gpus import gpu_named
from skyline.predict.host_cost import HostCost
from skyline_predictors.calibrated.measured_shape import shape_of
from skyline_predictors.calibrated.predictor import Calibrated
from skyline_predictors.processor import Processor
from skyline_predictors.processors import _spec

MACHINE = CalibratedDevice("Example CPU", "cpu", 4, 2**34, 3000, 384.0, 2**25, "2.13.0")
DEVICE = _spec(MACHINE, "example-4t")
SLOWER = 3.0


def measured(device=DEVICE, times: float = SLOWER) -> tuple[CaseTime, ...]:
    """Every operator takes so many times what is predicted without measurements."""
    cases = [case for case in islice(ordered_cases(("fp32",), (0,), designs("cpu")), 900) if shape_of(case)]
    shapes = [shape for case in cases if (shape := shape_of(case))]
    base = Processor().predict(shapes, device)
    rows = [CaseTime(case, answer.time_us.value * times) for case, answer in zip(cases, base, strict=True)]
    host = [
        CaseTime(Case(op, (("rows", 1),)), us)
        for op, us in (("host_view", 1.0), ("host_call", 2.0), ("host_module", 6.0))
    ]
    return (*rows, *host)  # fmt: skip


@pytest.fixture(scope="module")
def calibrated() -> Calibrated:
    return Calibrated(((MACHINE, measured()),))


def shapes():
    cases = islice(ordered_cases(("fp32",), (0,), designs("cpu")), 2000, 2200)
    return [shape for case in cases if (shape := shape_of(case))]


def test_what_was_measured_is_carried_to_other_sizes(calibrated):
    asked = shapes()
    base, answers = Processor().predict(asked, DEVICE), calibrated.predict(asked, DEVICE)
    for before, after in zip(base, answers, strict=True):
        assert after.time_us.value == pytest.approx(SLOWER * before.time_us.value)
        assert after.measured
        assert after.time_us.high - after.time_us.low < before.time_us.high - before.time_us.low


def test_formats_that_were_not_measured_stay_as_they_were(calibrated):
    asked = [replace(shape, dtypes=("float16",) * len(shape.dtypes)) for shape in shapes()]
    assert list(calibrated.predict(asked, DEVICE)) == list(Processor().predict(asked, DEVICE))


def test_another_device_is_left_alone(calibrated):
    other = replace(DEVICE, name="other", full_name="Another", aliases=())
    assert calibrated.claims(DEVICE)
    assert not calibrated.claims(other)
    assert calibrated.host_cost(other) is None
    assert calibrated.gain(other) is None
    assert list(calibrated.predict(shapes(), other)) == list(Processor().predict(shapes(), other))


def test_the_gain_is_told(calibrated):
    gain = calibrated.gain(DEVICE)
    assert gain is not None
    assert gain.before == pytest.approx(1 - 1 / SLOWER)
    assert gain.after == pytest.approx(0.0, abs=1e-9)


def test_the_host_is_measured_too(calibrated):
    cost = calibrated.host_cost(DEVICE)
    assert cost is not None
    assert (cost.operator_us, cost.launch_us, cost.synchronous) == (1.0, 4.0, True)


def test_launching_and_waiting_were_measured_on_a_gpu():
    gpu = CalibratedDevice(
        "NVIDIA H200", "cuda", 16, 2**37, torch="2.13.0", multiprocessors=132, capability=(9, 0)
    )
    one = (("cols", 1), ("rows", 1))
    named = {"host_view": 1.0, "host_call": 2.0, "host_module": 6.0, "launch_call": 4.5, "stream_sync": 3.0}
    rows = tuple(CaseTime(Case(op, one), time_us) for op, time_us in named.items())
    cost = Calibrated(((gpu, rows),)).host_cost(gpu_named("h200"))
    assert cost is not None
    # A module adds 4 µs to a call.
    assert (cost.operator_us, cost.launch_us, cost.wait_us) == (1.0, 8.5, 3.0)
    own = tuple(
        CaseTime(Case(op, (("k", 1),)), us)
        for op, us in (("host_forward", 5.0), ("host_backward", 9.0), ("host_optimizer", 2.0))
    )
    cost = Calibrated(((gpu, (*rows, *own)),)).host_cost(gpu_named("h200"))
    assert cost is not None
    assert (cost.launch_us, cost.backward_us, cost.optimizer_us) == (9.5, 13.5, 6.5)
    without = Calibrated(((gpu, rows[:3]),)).host_cost(gpu_named("h200"))
    assert without is not None
    assert (without.launch_us, without.wait_us) == (HostCost().launch_us, HostCost().wait_us)


def test_rows_of_one_thread_do_not_speak_for_all_threads():
    rows = tuple(replace(one, case=replace(one.case, threads=1)) for one in measured())
    assert (
        not Calibrated(((MACHINE, rows),)).claims(DEVICE)
        or Calibrated(((MACHINE, rows),)).gain(DEVICE) is None
    )


def test_a_file_of_another_machine_makes_it_a_device(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path))
    gpu = CalibratedDevice(
        "NVIDIA H200", "cuda", 16, 2**37, torch="2.13.0", multiprocessors=132, capability=(9, 0)
    )
    append(path_of(gpu), gpu, [CaseTime(Case("mm", (("k", 512), ("m", 512), ("n", 512))), 30.0)])
    own = Calibrated()
    h200 = gpu_named("h200")
    assert own.claims(h200)
    assert not own.claims(gpu_named("h100"))
    assert "calibrated on NVIDIA H200" in own.basis(h200)
    path_of(gpu).unlink()
    assert not own.claims(h200)


def test_the_processor_of_this_machine_can_be_named(tmp_path, monkeypatch):
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path))
    device = gpu_named("cpu")
    assert registry.predictor_for(device).name == "processor"
    assert registry.predictor_for(gpu_named("t4")).name == "mixed"
