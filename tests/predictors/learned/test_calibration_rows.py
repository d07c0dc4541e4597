"""Training uses the output of ``skyline calibrate --export`` where it was measured on a GPU."""

from dataclasses import replace

import pytest

from skyline.calibrate.case import Case
from skyline.calibrate.machine import CalibratedDevice
from skyline.calibrate.store import CaseTime, append
from skyline_predictors.learned.calibration_rows import calibration_files
from skyline_predictors.learned.family import Family
from skyline_predictors.learned.measurements import data_hash, measured

H100 = CalibratedDevice(
    "NVIDIA H100", "cuda", 16, 2**36, torch="2.13.0", multiprocessors=132, capability=(9, 0)
)
PROCESSOR = CalibratedDevice("Example CPU", "cpu", 4, 2**34, 3000, 384.0, 2**25, "2.13.0")
CONVOLVED = {"b": 8, "cin": 16, "cout": 16, "ksize": 3, "isize": 32, "stride": 1, "pad": 1}


def case(op: str, **sizes: int) -> Case:
    return Case(op, tuple(sorted(sizes.items())))


MEASURED = [
    *(CaseTime(case("add", rows=64 * n, cols=1024), 5.0 + n) for n in range(1, 9)),
    *(CaseTime(case("linear", m=64 * n, n=256, k=256), 9.0 + n) for n in range(1, 9)),
    CaseTime(case("conv", **CONVOLVED, groups=1), 40.0),
    CaseTime(case("conv", **CONVOLVED, groups=16), 40.0),
    CaseTime(replace(case("add", rows=64, cols=64), dtype="bf16"), 5.0),
    CaseTime(case("adam_fused", rows=64, cols=64), 5.0),
    CaseTime(case("relu", rows=64, cols=64), None, note="it failed"),
]


@pytest.fixture
def folder(tmp_path):
    append(tmp_path / "deeper" / "h100.csv", H100, MEASURED)
    append(tmp_path / "processor.csv", PROCESSOR, MEASURED)
    (tmp_path / "devices.csv").write_text("gpu,mem_gb\nH100,80\n")
    return tmp_path


def test_files_of_gpus_are_found(folder):
    assert calibration_files(folder) == [folder / "deeper" / "h100.csv"]
    assert calibration_files(folder / "none") == []


def test_their_float_kernels_are_learned_from(folder):
    (file,) = calibration_files(folder)
    sets, calls, rows = measured([file])
    assert set(sets) == {Family.ELEMENTWISE, Family.PRODUCT, Family.CONVOLUTION}
    assert rows == {"H100": 17}
    assert len(sets[Family.PRODUCT][0].time_us) == 8
    assert set(calls) == {"aten::add", "aten::addmm", "aten::convolution"}
    assert list(data_hash([file])) == ["deeper/h100.csv"]
