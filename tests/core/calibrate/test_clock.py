"""Timing a call on a GPU, on one whose clock is kept by hand."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="operators are timed with torch")

import torch

import skyline.calibrate

_CLOCK = Path(skyline.calibrate.__file__).parent / "child" / "clock.py"
_CYCLES_PER_US = 1_500


class Gpu:
    """Launching takes the host a while, and no more than ``places`` launches wait; times in µs."""

    def __init__(self, launch_us: float = 5.0, places: int = 1000) -> None:
        self.now = 0.0
        self.until = 0.0
        self.launch_us = launch_us
        self.places = places
        self.waiting: list[float] = []
        self.most_waiting = 0

    def launch(self, took: float) -> None:
        self.now += self.launch_us
        self.waiting = [end for end in self.waiting if end > self.now]
        if len(self.waiting) >= self.places:
            self.now = self.waiting[0]
        self.until = max(self.until, self.now) + took
        self.waiting.append(self.until)
        self.most_waiting = max(self.most_waiting, len(self.waiting))

    def _sleep(self, cycles: int) -> None:
        self.launch(cycles / _CYCLES_PER_US)

    def synchronize(self) -> None:
        self.now = max(self.now, self.until)

    def perf_counter(self) -> float:
        self.now += 0.01
        return self.now / 1e6

    def Event(self, enable_timing: bool) -> Any:
        gpu = self

        class Event:
            at = 0.0

            def record(self) -> None:
                self.at = max(gpu.now, gpu.until)

            def synchronize(self) -> None:
                gpu.now = max(gpu.now, self.at)

            def elapsed_time(self, other: Any) -> float:
                return (other.at - self.at) / 1e3

        return Event()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Gpu], ModuleType]:
    def of(gpu: Gpu) -> ModuleType:
        spec = importlib.util.spec_from_file_location("clock_of_a_gpu", _CLOCK)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "clock_of_a_gpu", module)
        spec.loader.exec_module(module)
        for name in ("_sleep", "synchronize", "Event"):
            monkeypatch.setattr(torch.cuda, name, getattr(gpu, name), raising=False)
        monkeypatch.setattr(module.time, "perf_counter", gpu.perf_counter)
        return module

    return of


@pytest.mark.parametrize(
    ("launch_us", "kernel_us"), [(5.0, 1.5), (1.0, 1.5), (5.0, 4.0), (5.0, 40.0), (5.0, 3_000.0)]
)
def test_a_kernel_is_timed_and_not_its_launch(
    clock: Callable[[Gpu], ModuleType], launch_us: float, kernel_us: float
):
    gpu = Gpu(launch_us)
    calls = [lambda: gpu.launch(kernel_us)] * 2
    time_us, spread = clock(gpu).timed(calls, "cuda")
    assert time_us == pytest.approx(kernel_us, rel=0.01)
    assert spread == pytest.approx(0.0, abs=0.01)
    assert gpu.most_waiting <= 502


def test_calls_that_wait_for_the_gpu_themselves_are_timed_with_their_waiting(
    clock: Callable[[Gpu], ModuleType],
):
    gpu = Gpu()

    def call() -> None:
        gpu.launch(2.0)
        gpu.synchronize()

    time_us, _ = clock(gpu).timed([call], "cuda")
    assert time_us == pytest.approx(7.0, rel=0.01)


def test_a_gpu_that_was_idle_is_warmed_up_before_it_is_timed(clock: Callable[[Gpu], ModuleType]):
    gpu = Gpu()
    module = clock(gpu)
    module.timed([lambda: gpu.launch(2.0)], "cuda")
    assert gpu.now > 0.3e6
    at = gpu.now
    module.timed([lambda: gpu.launch(2.0)], "cuda")
    assert gpu.now - at < 0.2e6, "it has been busy until now"
