"""The one place that asks PyTorch about devices, on devices whose clock is kept by hand."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the child's side of capture needs torch")

import torch

import skyline.capture
from skyline.capture.child.devices import backend, step_clock
from skyline.capture.child.devices.backend import Backend, is_available, profiler_activities
from skyline.capture.child.devices.captures import Captures
from skyline.capture.child.devices.in_use import DevicesInUse, devices_in_use
from skyline.capture.child.devices.step_clock import StepClock
from skyline.capture.child.recording.memory import device_memory
from skyline.capture.child.recording.recordings import Recordings

CHILD = Path(skyline.capture.__file__).parent / "child"
_ASKS = re.compile(r"torch\.(cuda|xpu|mps|accelerator)\b|\.is_cuda\b|torch\.backends\.mps")
_MAY_ASK = {"observer.py": 1, "watching/hooks.py": 1}
"""The class of the gradient scaler stands in a module of CUDA's in earlier versions of PyTorch."""


class Cards:
    """The answers of ``torch.cuda`` for two GPUs. Times are in ms; ``now`` is the host's clock."""

    def __init__(self, timing: bool = True) -> None:
        self.now = 0.0
        self.until = [0.0, 0.0]
        self.waits = 0
        self.peaks = [30, 4]
        self.timing = timing
        self.capturing = False

    def launch(self, index: int, took: float) -> None:
        """The host goes on; the device does it once it has done what came before."""
        self.until[index] = max(self.until[index], self.now) + took

    def synchronize(self, index: int) -> None:
        self.waits += 1
        self.now = max(self.now, self.until[index])

    def current_stream(self, index: int) -> int:
        return index

    def Event(self, enable_timing: bool) -> Any:
        if not self.timing:
            raise NotImplementedError
        cards = self

        class Event:
            at = 0.0

            def record(self, stream: int) -> None:
                self.at = max(cards.now, cards.until[stream])

            def synchronize(self) -> None:
                cards.now = max(cards.now, self.at)

            def elapsed_time(self, other: Any) -> float:
                return other.at - self.at

        return Event()

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return 3

    def current_device(self) -> int:
        return 0

    def memory_reserved(self, index: int) -> int:
        return (40, 8, 0)[index]

    def memory_allocated(self, index: int) -> int:
        return (20, 3, 0)[index]

    def max_memory_allocated(self, index: int) -> int:
        return self.peaks[index]

    def reset_peak_memory_stats(self, index: int) -> None:
        self.peaks[index] = self.memory_allocated(index)

    def memory_stats(self, index: int) -> dict[str, int]:
        return {"reserved_bytes.all.current": self.memory_reserved(index)}

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return (60, 100) if index == 0 else (90, 100)

    def list_gpu_processes(self, index: int) -> str:
        return ""

    def is_current_stream_capturing(self) -> bool:
        return self.capturing


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Cards:
    made = Cards()
    monkeypatch.setattr(step_clock, "_clock", lambda: made.now / 1e3)
    return made


def devices(cards: Cards, *indices: int) -> DevicesInUse:
    return DevicesInUse("cuda", Backend("cuda", cards), indices)


def turn(cards: Cards, step: Callable[[], None], count: int, *indices: int) -> tuple[list[float], StepClock]:
    """Iterations of a turn, with a millisecond of Skyline's own at each boundary."""
    clock = StepClock()
    clock.begin(devices(cards, *indices))
    cards.waits = 0
    clock.leave()
    for _ in range(count):
        step()
        clock.arrive()
        cards.now += 1.0
        clock.leave()
    return clock.steps_ms(), clock


def test_nothing_else_in_the_child_asks_for_devices():
    for path in sorted(CHILD.rglob("*.py")):
        place = path.relative_to(CHILD)
        if place.parts[0] in ("devices", "shape_tracing"):
            continue
        code = [line for line in path.read_text().splitlines() if '"""' not in line and "``" not in line]
        asks = [line for line in code if _ASKS.search(line)]
        assert len(asks) <= _MAY_ASK.get(str(place), 0), (place, asks)


@pytest.mark.parametrize(("host_ms", "device_ms"), [(0.5, 12.0), (5.0, 12.0), (10.0, 12.0), (20.0, 12.0)])
def test_what_is_launched_ahead_stays_ahead(cards: Cards, host_ms: float, device_ms: float):
    def step() -> None:
        cards.now += host_ms
        cards.launch(0, device_ms)

    steps, _ = turn(cards, step, 20, 0)
    assert steps[1:-1] == pytest.approx([max(host_ms, device_ms)] * 18, abs=1.01)
    assert cards.waits == 1, "once, at the end of the turn"


def test_an_iteration_ends_when_the_last_of_its_devices_is_done(cards: Cards):
    def step() -> None:
        cards.now += 1.0
        cards.launch(0, 4.0)
        cards.launch(1, 9.0)

    steps, _ = turn(cards, step, 10, 0, 1)
    assert steps[2:] == pytest.approx([9.0] * 8)
    alone, _ = turn(cards, step, 10, 0)
    assert alone[2:] == pytest.approx([4.0] * 8)


def test_a_device_without_timing_events_is_waited_for(cards: Cards):
    cards.timing = False

    def step() -> None:
        cards.now += 2.0
        cards.launch(0, 5.0)

    steps, clock = turn(cards, step, 5, 0)
    assert steps == pytest.approx([7.0] * 5)
    assert clock.behind == 0


def test_the_host_alone_is_timed_by_its_clock(cards: Cards):
    def step() -> None:
        cards.now += 3.0

    steps, clock = turn(cards, step, 5)
    assert steps == pytest.approx([3.0] * 5)
    assert clock.latest_ms() == pytest.approx(3.0)
    assert cards.waits == 0


def test_warm_up_hears_of_the_iteration_before_while_the_device_has_work(cards: Cards):
    clock = StepClock()
    clock.begin(devices(cards, 0))
    clock.leave()
    found: list[float | None] = []
    for took in (90.0, 20.0, 10.0, 10.0):
        cards.now += 1.0
        cards.launch(0, took)
        clock.arrive()
        found.append(clock.latest_ms())
        assert cards.until[0] > cards.now, "the device has not run dry"
        clock.leave()
    assert found[0] is None
    assert found[1:] == pytest.approx([91.0, 20.0, 10.0])
    assert clock.behind == 1


def on(kind: str, index: int | None = None) -> Any:
    return SimpleNamespace(device=torch.device(kind, index) if index is not None else torch.device(kind))


def test_all_devices_that_hold_memory_are_in_use(cards: Cards, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("skyline.capture.child.devices.in_use.backend_of", lambda kind: Backend(kind, cards))
    found = devices_in_use([on("cuda", 1)])
    assert (found.kind, found.indices) == ("cuda", (1, 0)), "the one of the parameters first"
    found.wait()
    assert cards.waits == 2
    assert found.allocated_bytes() == 23
    assert found.free_and_total_bytes() == (150, 200)
    assert found.room_and_capacity_bytes() == (72, 120), "the first has five parts in six, and is full first"
    spread = devices_in_use([on("cpu"), on("cuda", 0), on("cuda", 2)])
    assert spread.indices == (0, 2, 1)


class Apple:
    """A stand-in for ``torch.mps``: one device, and no question that takes an index."""

    def __init__(self, cards: Cards) -> None:
        self._cards = cards

    def synchronize(self) -> None:
        self._cards.synchronize(0)

    def current_allocated_memory(self) -> int:
        return 20

    def driver_allocated_memory(self) -> int:
        return 40

    def recommended_max_memory(self) -> int:
        return 100


def test_intels_gpu_is_waited_for_and_timed_by_its_events(cards: Cards, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "xpu", cards)
    found = devices_in_use([on("xpu", 0)])
    assert (found.kind, found.indices) == ("xpu", (0, 1))
    assert found.times
    found.wait()
    assert cards.waits == 2
    assert found.allocated_bytes() == 23


def test_apples_gpu_is_waited_for_at_each_boundary(cards: Cards, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "mps", Apple(cards))
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    found = devices_in_use([on("mps", 0)])
    assert (found.kind, found.indices, found.times) == ("mps", (0,), False)
    assert (found.allocated_bytes(), found.reserved_bytes(), found.peak_bytes()) == (20, 40, None)
    assert found.free_and_total_bytes() == (60, 100)
    clock = StepClock()
    clock.begin(found)
    clock.leave()
    for _ in range(3):
        cards.now += 2.0
        cards.launch(0, 5.0)
        clock.arrive()
        clock.leave()
    assert clock.steps_ms() == pytest.approx([7.0] * 3)


def test_a_model_on_the_host_is_not_on_a_gpu_that_was_used_for_something_else(
    cards: Cards, monkeypatch: pytest.MonkeyPatch
):
    used = [Backend("cuda", cards)]
    monkeypatch.setattr("skyline.capture.child.devices.in_use.used_backends", lambda: used)
    assert devices_in_use([on("cpu")]).kind == "cpu"
    assert devices_in_use([]).indices == (0, 1)
    used.clear()
    assert devices_in_use([]).kind == "cpu"


def test_the_memory_of_all_devices_is_told_together(cards: Cards):
    memory = device_memory(devices(cards, 0, 1))
    assert memory is not None
    assert (memory["total_bytes"], memory["free_bytes"], memory["reserved_bytes"]) == (200, 72, 48)
    assert memory["context_bytes"] == 2, "of what is used on both"
    assert device_memory(DevicesInUse()) is None


class Marked:
    """A recorder of two iterations."""

    remaining = 2

    def start(self) -> None:
        pass

    def mark(self) -> None:
        self.remaining -= 1


def test_the_peak_is_the_allocators(cards: Cards, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Recordings, "_full_recorder", lambda self: Marked())
    recordings = Recordings(devices(cards, 0, 1), None, 2, 0, with_stacks=False)
    recordings.start()
    assert cards.peaks == [20, 3], "what came before does not count"
    cards.peaks = [50, 6]
    recordings.mark()
    assert cards.peaks == [20, 3]
    cards.peaks = [45, 9]
    recordings.mark()
    recordings._full = {"trace": {"allocations": [{"size_bytes": -2}]}}
    recordings.note_memory({"parameter_bytes": 20}, {"allocated_peak_bytes": 1})
    assert recordings._full["peak_bytes"] == 56
    assert recordings._full["device_memory"]["allocated_peak_bytes"] == 56


def test_without_an_allocator_that_keeps_a_peak_it_is_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Recordings, "_full_recorder", lambda self: Marked())
    recordings = Recordings(DevicesInUse(), None, 2, 0, with_stacks=False)
    recordings.start()
    recordings.mark()
    recordings._full = {"trace": {"allocations": [{"size_bytes": 5}, {"size_bytes": -2}]}}
    recordings.note_memory({"parameter_bytes": 20}, None)
    assert recordings._full["peak_bytes"] == 22


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    monkeypatch.delenv(name, raising=False)
    yield name
    assert name not in os.environ


def test_asking_whether_there_is_a_gpu_does_not_begin_to_use_it(unset: str, monkeypatch: pytest.MonkeyPatch):
    heard: list[str | None] = []

    def answer() -> bool:
        heard.append(os.environ.get(unset))
        return True

    monkeypatch.setattr(torch.cuda, "is_available", answer)
    assert is_available("cuda")
    assert heard == ["1"]
    assert not is_available("gpu_of_nobody")


def test_devices_are_recorded_as_what_they_are():
    known = torch.profiler.ProfilerActivity
    assert profiler_activities("cpu") == profiler_activities("mps") == [known.CPU]
    assert profiler_activities("cuda") == [known.CPU, known.CUDA]
    assert profiler_activities("of_somebody") == [known.CPU, known.PrivateUse1]


def test_what_a_backend_does_not_tell_is_not_told(monkeypatch: pytest.MonkeyPatch):
    """PyTorch's common module speaks of another kind: builds for CUDA answer without a GPU too, in 2.11 with 0."""
    monkeypatch.setattr(torch.accelerator, "max_memory_allocated", lambda index: 0)
    bare = Backend("bare", SimpleNamespace(synchronize=lambda index: None))
    assert (bare.allocated_bytes(0), bare.peak_bytes(0), bare.name(0), bare.identity(0)) == (0, None, "", "")
    assert not bare.times(0)
    assert not bare.is_capturing()


class Graph:
    """Has what the class of captured graphs has."""

    replays = 0

    def capture_begin(self) -> None:
        pass

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        self.replays += 1


@pytest.mark.parametrize(("own", "name"), [("cuda", "CUDAGraph"), ("xpu", "XPUGraph")])
def test_what_is_captured_happens_when_it_is_replayed(
    own: str, name: str, cards: Cards, monkeypatch: pytest.MonkeyPatch
):
    told: list[list[str]] = []
    graph_class = type("Graph", (Graph,), {})
    monkeypatch.setattr(cards, name, graph_class, raising=False)
    monkeypatch.setattr(
        "skyline.capture.child.devices.captures.backend_of",
        lambda kind: Backend(kind, cards) if kind == own else None,
    )
    captures = Captures(lambda held, frame: told.append(list(held)))
    captures.install()
    assert not captures.under_way()
    first, second, empty = (graph_class() for _ in range(3))
    for graph, held in ((first, "step"), (second, "other step")):
        graph.capture_begin()
        assert captures.under_way()
        captures.note(held)
        graph.capture_end()
    empty.capture_begin()
    empty.capture_end()
    assert not captures.under_way()
    assert told == []
    for graph in (first, first, second, empty):
        graph.replay()
    assert told == [["step"], ["step"], ["other step"]]
    cards.capturing = True
    assert captures.under_way(), "by whatever it is captured"


def test_numbers_drawn_by_a_forward_pass_are_noticed():
    before = backend.random_states()
    assert all(torch.equal(a, b) for a, b in zip(before, backend.random_states(), strict=True))
    torch.rand(1)
    assert not torch.equal(before[0], backend.random_states()[0])
