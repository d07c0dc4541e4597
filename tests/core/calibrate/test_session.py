"""Measures for real, for a second or two."""

import os
import signal
import sys
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from skyline.calibrate.case import Case
from skyline.calibrate.designs import DEVICE_CALLS, designs
from skyline.calibrate.session import MeasuringProcess, machine_here, run_session
from skyline.calibrate.store import CaseTime, alone, append, path_of, read
from skyline.errors import CaptureImpossible, UsageError

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("calibration process")]
TOO_SMALL = {"b": 1, "cin": 1, "cout": 1, "isize": 1, "ksize": 9, "pad": 0, "stride": 1}
PRODUCT = Case("mm", (("k", 64), ("m", 64), ("n", 64)))


@pytest.fixture(scope="module")
def process():
    with MeasuringProcess(sys.executable, "cpu") as made:
        yield made


@pytest.fixture
def sittings(process, tmp_path, monkeypatch):
    """Sittings measure one operator, in the process of all tests here."""

    @contextmanager
    def lent(*_):
        yield process

    sums = tuple(design for design in designs("cpu") if design.op == "add")
    monkeypatch.setattr("skyline.calibrate.session.designs", lambda *_, **__: sums)
    monkeypatch.setattr("skyline.calibrate.session.MeasuringProcess", lent)
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path))


@pytest.mark.usefixtures("sittings")
def test_a_second_sitting_goes_on_where_the_first_stopped():
    seen: list[float] = []
    first = run_session(sys.executable, "cpu", 0.3 / 60, progress=lambda fraction, *_: seen.append(fraction))
    second = run_session(sys.executable, "cpu", 0.3 / 60, progress=lambda *_: None)
    assert first.measured > 0
    assert second.before == first.measured + first.failed
    keys = [one.case.key for one in read(first.path)[1]]
    assert len(keys) == len(set(keys)) == second.before + second.measured + second.failed
    assert seen == sorted(seen)


def test_ways_to_compute_attention_are_told_apart(process):
    heads = (("b", 4), ("k", 32), ("m", 64))
    for op in ("attention_math", "attention_flash"):
        assert process.measure(Case(op, heads)).time_us > 0
    # Only GPUs have this one.
    assert process.measure(Case("attention_efficient", heads)).time_us is None


def test_what_only_a_gpu_has_fails_with_its_reason_elsewhere(process):
    for op in DEVICE_CALLS:
        failed = process.measure(Case(op, (("cols", 1), ("rows", 1))))
        assert failed.time_us is None
        assert failed.note
    assert process.measure(PRODUCT).time_us > 0


@pytest.mark.usefixtures("sittings")
def test_cancelling_keeps_what_was_measured():
    cancel = threading.Event()

    def progress(_fraction, known, _machine):
        if known >= 3:
            cancel.set()

    done = run_session(sys.executable, "cpu", 5.0, progress=progress, cancel=cancel)
    assert len(read(done.path)[1]) == 3


@pytest.mark.usefixtures("sittings")
def test_measurements_of_another_kind_are_set_aside_and_nobody_measures_at_the_same_time():
    here = machine_here(sys.executable, "cpu")
    path = path_of(here)
    for number, other in enumerate((replace(here, torch="1.0"), replace(here, timing=here.timing + 1)), 1):
        append(path, other, [CaseTime(PRODUCT, 7.0)])
        done = run_session(sys.executable, "cpu", 0.1 / 60, progress=lambda *_: None)
        assert done.before == 0
        assert done.set_aside == path.with_suffix(f".csv.{number}")
        assert read(done.set_aside)[0] == other
        assert read(path)[0] == here
        path.unlink()
    with alone(path), pytest.raises(UsageError, match="another process"):
        run_session(sys.executable, "cpu", 0.1 / 60, progress=lambda *_: None)


@pytest.mark.parametrize("threads", [0, 1])
def test_a_case_has_a_time_and_how_steady_it_was(process, threads):
    found = process.measure(Case("mm", PRODUCT.sizes, "fp32", threads))
    assert found.time_us is not None
    assert found.time_us > 0
    assert found.spread >= 0
    assert not found.note


@pytest.mark.parametrize(
    ("case", "note"),
    [
        (Case("mm", (("k", 10**7), ("m", 10**7), ("n", 10**7))), "RuntimeError"),
        (Case("nothing like it", ()), "KeyError"),
        (Case("conv", tuple(TOO_SMALL.items())), "Runtime"),
    ],
)
def test_what_cannot_be_run_has_a_reason(process, case, note):
    found = process.measure(case)
    assert found.time_us is None
    assert note in found.note
    assert process.measure(PRODUCT).time_us is not None


def test_a_crash_costs_the_case_in_flight(process):
    running = process._process
    assert running is not None
    os.kill(running.pid, signal.SIGKILL)

    lost = process.measure(PRODUCT)
    assert lost.time_us is None
    assert "ended" in lost.note
    assert process.measure(PRODUCT).time_us is not None


def test_an_interpreter_without_torch_is_named(tmp_path):
    wrong = tmp_path / "python"
    wrong.write_text('#!/bin/sh\necho \'{"error": "no torch"}\'\n')
    wrong.chmod(0o755)
    with pytest.raises(CaptureImpossible, match="no torch"):
        MeasuringProcess(str(wrong), "cpu")
    with pytest.raises(CaptureImpossible, match="could not be started"):
        MeasuringProcess(str(tmp_path / "missing"), "cpu")
