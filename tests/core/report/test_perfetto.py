from __future__ import annotations

import gzip
import json
from collections import defaultdict
from typing import Any

from skyline.analysis.analyse import analyse
from skyline.report.perfetto import chrome_trace
from skyline.trace.profile import Profile


def events(data: bytes) -> list[dict[str, Any]]:
    return json.loads(gzip.decompress(data))["traceEvents"]


def test_every_record_is_there_with_its_line(profile: Profile) -> None:
    spans = [e for e in events(chrome_trace(profile)) if e["ph"] == "X" and "args" in e]
    assert len(spans) == len(profile.trace.records)
    lines = {e["args"].get("line") for e in spans}
    assert {f"{line.file}:{line.line}" for line in profile.trace.lines} & lines


def test_spans_of_one_thread_nest_or_follow_each_other(profile: Profile) -> None:
    threads: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    for event in events(chrome_trace(profile)):
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for spans in threads.values():
        for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert start >= end - 0.01


def test_every_thread_has_a_name(gpu_profile: Profile) -> None:
    found = events(chrome_trace(gpu_profile))
    named = {(e["pid"], e["tid"]) for e in found if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in found if e["ph"] == "X"} <= named


def test_phases_cover_the_script_s_own_thread(profile: Profile) -> None:
    found = events(chrome_trace(profile))
    phases = sum(e["dur"] for e in found if e["ph"] == "X" and e["cat"] == "phase")
    recorded = sum(record.duration_us for record in profile.trace.records)
    assert abs(phases - recorded) < 1


def test_arrows_lead_from_launches_to_kernels(gpu_profile: Profile) -> None:
    found = events(chrome_trace(gpu_profile))
    starts = {e["id"]: e for e in found if e["ph"] == "s"}
    ends = {e["id"]: e for e in found if e["ph"] == "f"}
    assert starts
    assert starts.keys() == ends.keys()
    assert all(starts[key]["tid"] != ends[key]["tid"] for key in starts)


def test_memory_is_a_counter_over_time(profile: Profile) -> None:
    counters = [e for e in events(chrome_trace(profile)) if e["ph"] == "C"]
    assert len(counters) == len(profile.trace.allocations) > 0
    assert [e["ts"] for e in counters] == sorted(e["ts"] for e in counters)
    first = min(profile.trace.allocations, key=lambda allocation: allocation.time_us)
    assert counters[0]["args"]["bytes"] == profile.memory.total_bytes + first.size_bytes


def test_the_replay_is_a_second_process(profile: Profile) -> None:
    found = events(chrome_trace(profile, analyse(profile).timeline))
    assert {e["pid"] for e in found if e["ph"] == "X"} == {1, 2}


def test_the_same_profile_gives_the_same_bytes(profile: Profile) -> None:
    assert chrome_trace(profile) == chrome_trace(profile)
