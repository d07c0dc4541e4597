from __future__ import annotations

import gzip
import json
from collections import defaultdict

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.chrome_events import CRITICAL_LANE, FIRST_LANE
from skyline.report.perfetto import chrome_trace
from skyline.report.perfetto_traced import side_by_side

MEASURED, SIMULATED = 1, 2
# The smaller half: the file of a large one takes seconds to check.
SMALLER = (
    "hta_a100_inference_alexnet",
    "hta_gp100_mlp_train",
    "param_dlrm_rank0of8",
    "param_dlrm_rank1of8",
    "param_dlrm_rank2of8",
    "param_dlrm_rank3of8",
    "tracelens_h100_bert_small_fwd",
    "tracelens_h100_vit_nsfw_fwd",
)


def document(data):
    return json.loads(gzip.decompress(data))


def of(events, kind, process=None):
    return [one for one in events if one["ph"] == kind and process in (None, one["pid"])]


def check(events) -> None:
    """Check the properties that viewers need: named lanes, spans nested or apart, arrows with both ends on spans."""
    named = {(one["pid"], one["tid"]) for one in events if one["name"] == "thread_name"}
    threads = defaultdict(list)
    for one in of(events, "X"):
        assert one["dur"] >= 0
        threads[one["pid"], one["tid"]].append((one["ts"], -one["dur"]))
    assert set(threads) <= named
    for spans in threads.values():
        held: list[float] = []
        for begin, length in sorted(spans):
            while held and held[-1] <= begin + 1e-6:
                held.pop()
            assert not held or begin - length <= held[-1] + 2e-3
            held.append(begin - length)
    starts, ends = ({one["id"]: one for one in of(events, kind)} for kind in "sf")
    assert starts.keys() == ends.keys()
    assert len(starts) == len(of(events, "s")) == len(of(events, "f"))
    begins = {(one["pid"], one["tid"], one["ts"]) for one in of(events, "X")}
    for number, one in starts.items():
        other = ends[number]
        assert one["pid"] == other["pid"]
        assert one["cat"] == other["cat"]
        assert (other["pid"], other["tid"], other["ts"]) in begins


@pytest.fixture
def both(gpu):
    return document(side_by_side(gpu, "/home/ada/tiny.json"))["traceEvents"]


def test_two_processes_with_the_same_lanes(both) -> None:
    lanes = {
        process: {
            one["args"]["name"]: one["tid"]
            for one in both
            if one["name"] == "thread_name" and one["pid"] == process
        }
        for process in (MEASURED, SIMULATED)
    }
    assert lanes[SIMULATED] == {"critical path": CRITICAL_LANE, **lanes[MEASURED]}
    assert {"main", "thread 1", "stream 7", "steps"} == set(lanes[MEASURED])
    names = {one["pid"]: one["args"]["name"] for one in both if one["name"] == "process_name"}
    assert names == {MEASURED: "measured", SIMULATED: "simulated"}
    check(both)


def test_steps_of_both_sides_lie_at_the_same_times(both) -> None:
    measured, simulated = (
        [(one["name"], one["ts"]) for one in of(both, "X", process) if one["cat"] == "step"]
        for process in (MEASURED, SIMULATED)
    )
    assert (
        [name for name, _ in measured] == [name for name, _ in simulated] == [f"step {n}" for n in range(5)]
    )
    for (_, one), (_, other) in zip(measured, simulated, strict=True):
        assert one == pytest.approx(other, abs=50)


def test_arrows_on_both_sides(both, gpu) -> None:
    assert len(of(both, "s", MEASURED)) == len(of(both, "s", SIMULATED)) == 5 * 10
    kernels = {one["ts"] for one in of(both, "X", MEASURED) if one["cat"] in ("kernel", "copy")}
    assert {one["ts"] for one in of(both, "f", MEASURED)} == kernels


def test_the_critical_path_covers_the_simulation(both, gpu) -> None:
    path = [one for one in of(both, "X", SIMULATED) if one["tid"] == CRITICAL_LANE]
    assert {one["cat"] for one in path} <= {"cpu", "gpu_compute", "launch", "data"}
    assert {"data", "gpu_compute", "cpu"} <= {one["cat"] for one in path}
    covered = sum(one["dur"] for one in path)
    assert covered == pytest.approx(gpu.timeline.makespan_us, rel=0.02)


def test_measured_events_are_the_trace_s(both) -> None:
    measured = [one for one in of(both, "X", MEASURED) if one["tid"] >= FIRST_LANE]
    assert sum(one["name"] == "aten::linear" for one in measured) == 5
    assert sum(one["cat"] == "kernel" for one in measured) == 5 * 8
    # Python functions are left out: with call stacks they are most of a trace.
    assert not any(one["cat"] == "python" for one in measured)


def test_overlapping_ranges_are_clipped(changed) -> None:
    one = changed(lambda event: {**event, "dur": 900} if event["name"].startswith("enumerate") else event)
    check(document(side_by_side(one, "x.json"))["traceEvents"])


def test_a_profile_has_the_same_two_sides(gpu_profile, profile) -> None:
    for one in (gpu_profile, profile):
        events = document(chrome_trace(one, analyse(one).timeline))["traceEvents"]
        check(events)
        assert any(event["tid"] == CRITICAL_LANE for event in of(events, "X", SIMULATED))
    events = document(chrome_trace(gpu_profile, analyse(gpu_profile).timeline))["traceEvents"]
    assert len(of(events, "s", MEASURED)) == len(of(events, "s", SIMULATED)) > 0


def test_the_same_trace_gives_the_same_bytes(gpu) -> None:
    assert side_by_side(gpu, "x.json") == side_by_side(gpu, "x.json")
    assert document(side_by_side(gpu, "/home/ada/x.json"))["otherData"]["source"] == "x.json"


@pytest.mark.parametrize("published", SMALLER, indirect=True)
def test_every_visible_trace(published) -> None:
    check(document(side_by_side(published.subject, published.path.name))["traceEvents"])
