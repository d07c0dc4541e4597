"""Counters of energy, as the kernel and the driver present them."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from skyline.analysis.analyse import analyse
from skyline.capture.power import (
    Counter,
    counter_of,
    gpu_counter,
    gpu_names,
    measured,
    processor_counter,
)
from skyline.cli.doctor import energy_check
from skyline.report.basis import energy_remark
from skyline.report.build import profile_report
from skyline.trace.facts import PowerFact
from skyline.trace.profile import Profile


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    """The files of a machine with two packages, each with its memory as a zone inside."""
    for number, used in ((0, 900), (1, 50)):
        for name, zone in ((f"package-{number}", ""), ("dram", ":0")):
            folder = tmp_path / f"intel-rapl:{number}{zone}"
            folder.mkdir()
            (folder / "name").write_text(f"{name}\n")
            (folder / "energy_uj").write_text(f"{used}\n")
            (folder / "max_energy_range_uj").write_text("999\n")
    return tmp_path


def test_packages_are_counted_together_and_across_the_end_of_their_range(powercap: Path):
    counter = processor_counter(powercap)
    assert counter is not None
    assert (counter.source, counter.of) == ("RAPL", "2 processors")
    before = counter.read()
    (powercap / "intel-rapl:0" / "energy_uj").write_text("100\n")  # 100 to the end and 100 from the start
    (powercap / "intel-rapl:1" / "energy_uj").write_text("350\n")
    assert counter.joules_between(before, counter.read()) == pytest.approx((200 + 300) / 1e6)


def test_without_a_counter_that_can_be_read_there_is_none(powercap: Path, tmp_path: Path):
    assert processor_counter(tmp_path / "none") is None
    (powercap / "intel-rapl:1" / "energy_uj").unlink()
    assert processor_counter(powercap) is None


def test_energy_is_shared_among_the_iterations_that_were_done():
    joules = iter([(100.0,), (160.0,)])
    counter = Counter("NVML", "the board", lambda: next(joules), lambda before, after: after[0] - before[0])
    asked: list[int] = []

    def run(count: int) -> int:
        asked.append(count)
        return count - 1

    fact = measured(counter, 100.0, 4.0, run)
    assert asked == [15], "a second and a half"
    assert fact.iterations == 14
    assert fact.joules == pytest.approx(60 / 14)
    assert fact.mean_watts == pytest.approx(60 / fact.window_s)


class Driver(ModuleType):
    """The calls of nvidia-ml-py that are used, on a machine with two GPUs."""

    class NVMLError(Exception):
        pass

    names = (b"Example A", "Example B")
    counted = True

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetCount(self) -> int:
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> str | bytes:
        return self.names[handle]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        if not self.counted:
            raise self.NVMLError("Not Supported")
        return 5_000 * (handle + 1)


def test_the_gpu_of_the_script_is_read_in_joules(monkeypatch: pytest.MonkeyPatch):
    driver = Driver("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    counter = counter_of("cuda", "Example B")
    assert counter is not None
    assert counter.of == "the board of the Example B"
    assert counter.read() == (10.0,)
    driver.names = ("Example B", "Example B")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,0")
    second = gpu_counter("Example B")
    assert second is not None
    assert second.read() == (10.0,)
    driver.counted = False
    assert gpu_counter("Example B") is None, "older than Volta"


class MixedDriver(Driver):
    """Two boards of one name and one of another, which the driver distinguishes."""

    names = ("Example B", "Example A", "Example A")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> int:
        return {"GPU-b": 0, "GPU-a1": 1, "GPU-a2": 2}[uuid]


@pytest.fixture
def mixed(monkeypatch: pytest.MonkeyPatch) -> MixedDriver:
    driver = MixedDriver("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)
    return driver


def read(name: str, *identities: str) -> tuple[float, ...] | None:
    counter = counter_of("cuda", name, identities)
    return None if counter is None else counter.read()


def test_boards_that_pytorch_names_are_read_and_no_others(
    mixed: MixedDriver, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert read("Example A", "GPU-a2") == (15.0,)
    both = counter_of("cuda", "Example A", ("GPU-a1", "GPU-a2"))
    assert both is not None
    assert both.of == "2 boards of the Example A"
    assert both.joules_between((10.0, 15.0), (11.0, 18.0)) == 4.0


def test_on_mixed_boards_a_number_alone_tells_nothing(mixed: MixedDriver, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert read("Example A") is None
    assert read("Example B") == (5.0,), "there is one alone of that name"
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert read("Example A") == (10.0,)
    assert read("Example B") is None, "the second is none of these"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a2")
    assert read("Example A") == (15.0,)


def test_a_part_of_a_board_has_no_counter_of_its_own(mixed: MixedDriver, monkeypatch: pytest.MonkeyPatch):
    assert read("Example A MIG 1g.10gb", "GPU-a1") is None
    assert read("Example A", "MIG-a1") is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-1")
    assert read("Example A") is None


def test_other_accelerators_have_no_counter(mixed: MixedDriver):
    assert counter_of("mps", "Example A") is None


def test_doctor_names_the_boards_that_have_a_counter(monkeypatch: pytest.MonkeyPatch):
    driver = Driver("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    assert gpu_names()
    assert f"the board of the {gpu_names()[0]} (NVML)" in energy_check().finding
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_names() == ()


def test_without_the_library_there_is_no_figure(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert counter_of("cuda", "Example B") is None


def test_a_report_says_what_was_counted(profile: Profile):
    assert energy_remark(profile_report(analyse(profile))) == ""
    fact = PowerFact("NVML", "the board of the X1", 12.345, 310.2, 38, 1.512)
    said = energy_remark(profile_report(analyse(replace(profile, power=fact))))
    assert "12.3 J at 310 W: the board of the X1" in said
    assert "38 iterations in 1.5 s" in said
