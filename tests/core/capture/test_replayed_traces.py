"""Recordings of real GPUs, read as the child reads its own.

Where a trace has no Python stacks its frames are made up (see ``recorded_tree``): what these say of lines is not the
reader's merit, but the time that they cover is.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from skyline.capture.child.recording import recordings
from skyline.capture.child.recording.recorder import BOUNDARY
from skyline.capture.recording import LIGHT_FAILED, ChildRecording, notes_on
from skyline.graph.build import build, main_lane
from skyline.simulate.engine import replay_error
from skyline.trace.facts import MemoryFact
from skyline.trace.record import Record, RecordKind, Trace

MAIN = "cpu:main"
NO_MEMORY = dict.fromkeys(MemoryFact.__dataclass_fields__, 0)
OWN = Path(__file__).resolve().parents[2] / "data" / "traces"
"""The smallest, with their licences; the others are in the shared data."""
VERSIONS = ("2.1", "2.4", "2.13")
SMALL = (
    "hta_a100_inference_alexnet",
    "hta_gp100_mlp_train",
    "param_dlrm_rank0of8",
    "param_dlrm_rank1of8",
    "param_dlrm_rank2of8",
    "param_dlrm_rank3of8",
    "tracelens_h100_bert_small_fwd",
    "tracelens_h100_vit_nsfw_fwd",
)
WITH_STACKS = (
    "tracelens_h100_bert_small_fwd",
    "tracelens_h100_vit_nsfw_fwd",
    "deepview_rtx3060ti_resnet50_run1",
)
LARGE = (
    "hta_v100_resnet50_ddp1",
    "hta_a100_rank0of16_recsys",
    "hta_a100_rank3of8_recsys_control",
    "kineto_2101_resnet50_workers0",
    "kineto_2101_resnet50_workers4",
    "kineto_2101b_resnet50_autogradapi_workers0",
    "kineto_2101b_resnet50_workers0",
    "kineto_2106_resnet50_workers0_run1",
)


def _beside(name: str) -> ModuleType:
    """A module of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


recorded_tree = _beside("recorded_tree")


@dataclass(frozen=True)
class Replay:
    """The result of the child's reader for a trace, and the numbers of the calls that the trace itself holds."""

    trace: Trace
    called: frozenset[int]


@pytest.fixture
def recorded(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Any]:
    """A trace by its name, as the profiler's own objects; however long the machine takes to read it."""
    # The frames' files are found where the interpreter looks for modules.
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(recordings, "_cpu_clock", lambda: 0.0)
    monkeypatch.setattr(recordings, "module_names", dict)

    def read(name: str) -> Any:
        path = OWN / f"{name}.json.gz"
        if not path.exists():
            shared: Path = request.getfixturevalue("shared_data")
            path = shared / "traces" / path.name
        if not path.exists():
            pytest.skip(f"no {path}")
        return recorded_tree.Recorded.of(path, tmp_path, BOUNDARY)

    return read


@pytest.fixture
def replayed(recorded: Callable[[str], Any]) -> Callable[..., Replay]:
    def read(name: str, version: str = "2.13") -> Replay:
        found = recorded(name)
        return Replay(trace_of(found, version), frozenset(found.calls))

    return read


class Device(str):
    """A device by its kind."""

    @property
    def kind(self) -> str:
        return str(self)


def trace_of(recorded: Any, version: str) -> Trace:
    """The recording read twice, as a full one and as the light one that its knowledge is brought onto."""
    both = recordings.Recordings(Device("cuda"), None, 1, 3)
    for _ in range(2):
        read_into(both, recorded, version)
    assert both._light is not None, both._light_failure
    return msgspec.convert(both.result()["trace"], Trace)


def read_into(both: recordings.Recordings, recorded: Any, version: str) -> None:
    """Read what is recorded in the place of what the profiler would give."""
    results = SimpleNamespace(kineto_results=recorded.results(version))
    both._recorder._samples = None
    both._recorder._profiler = SimpleNamespace(profiler=results, stop=lambda: None)  # type: ignore[assignment]
    both.stop()
    both.read(None)


def assert_reading_is_whole(replay: Replay) -> None:
    trace = replay.trace
    assert main_lane(trace) == MAIN
    covered, twice = host_time(trace)
    assert covered > 0.99
    assert twice < 0.01
    calls = {record.correlation for record in trace.records if record.kind is RecordKind.RUNTIME}
    launched = gpu_work(trace, replay.called)
    assert launched
    # Records left out were launched before the recording began, or by code that the profiler did not see.
    assert {record.name for record in launched if record.correlation not in calls} == set()
    assert replay_error(build(trace), trace) < 0.05


def host_time(trace: Trace) -> tuple[float, float]:
    """The shares of the iterations that the records of the script's thread cover, and cover twice."""
    total = sum(mark.end_us - mark.start_us for mark in trace.iterations)
    covered = twice = reached = 0.0
    for record in sorted(trace.records, key=lambda record: record.start_us):
        if record.lane == MAIN:
            twice += max(0.0, min(reached, record.end_us) - record.start_us)
            covered += max(0.0, record.end_us - max(reached, record.start_us))
            reached = max(reached, record.end_us)
    return covered / total, twice / total


def gpu_work(trace: Trace, called: frozenset[int]) -> list[Record]:
    kinds = (RecordKind.KERNEL, RecordKind.COPY)
    return [record for record in trace.records if record.kind in kinds and record.correlation in called]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SMALL)
def test_nothing_is_lost_or_counted_twice(replayed: Callable[..., Replay], name: str, version: str) -> None:
    assert_reading_is_whole(replayed(name, version))


@pytest.mark.parametrize("name", WITH_STACKS)
def test_every_kernel_has_a_line(replayed: Callable[..., Replay], name: str) -> None:
    replay = replayed(name)
    assert_reading_is_whole(replay)
    assert {record.name for record in gpu_work(replay.trace, replay.called) if record.line < 0} == set()


@pytest.mark.parametrize("name", SMALL[:2])
def test_versions_of_the_profiler_agree(replayed: Callable[..., Replay], name: str) -> None:
    """Spans that are shown on the GPU are no kernels; µs are rounded."""
    replays = [replayed(name, version) for version in VERSIONS]
    work = [gpu_work(replay.trace, replay.called) for replay in replays]
    names = [sorted((record.name, record.correlation) for record in rows) for rows in work]
    assert names[0] == names[1] == names[2]
    busy = [sum(record.duration_us for record in rows) for rows in work]
    assert busy[0] == pytest.approx(busy[2], abs=len(work[0]))


def test_a_light_recording_that_cannot_be_joined_is_done_without(
    recorded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no fault of the script's, and the full one has its times, too."""

    def failing(light: Any, full: Any) -> float:
        raise KeyError("whole")

    monkeypatch.setattr(recordings, "enrich", failing)
    trace = recorded("hta_gp100_mlp_train")
    both = recordings.Recordings(Device("cuda"), None, 1, 3)
    for _ in range(2):
        read_into(both, trace, "2.13")
    result = both.result()
    assert result["trace"]["shapes"] == []
    [note] = notes_on(
        msgspec.convert({**result, "memory": NO_MEMORY, "peak_bytes": 0}, ChildRecording), "cuda"
    )
    assert note.startswith(f"{LIGHT_FAILED} (KeyError: 'whole')")
    assert gpu_work(msgspec.convert(both.result()["trace"], Trace), frozenset(trace.calls))


@pytest.mark.long
@pytest.mark.parametrize("name", LARGE)
def test_nothing_is_lost_of_a_large_recording(replayed: Callable[..., Replay], name: str) -> None:
    assert_reading_is_whole(replayed(name))


@pytest.mark.long
def test_threads_that_only_ask_are_lanes_of_their_own(replayed: Callable[..., Replay]) -> None:
    """Watchdogs of communicators ask how far the GPU is, and have no operators."""
    trace = replayed("hta_a100_rank0of16_recsys").trace
    asking = {record.lane for record in trace.records if record.name == "cudaEventQuery"}
    assert len(asking) > 3
    assert any(lane.startswith("cpu:os") for lane in asking)
