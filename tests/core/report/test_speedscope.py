from __future__ import annotations

import json
from typing import Any

import pytest

from skyline.report.speedscope import SCHEMA, speedscope
from skyline.trace.profile import Profile


def document(profile: Profile) -> dict[str, Any]:
    return json.loads(speedscope(profile))


def test_frames_carry_file_and_line(profile: Profile) -> None:
    found = document(profile)
    assert found["$schema"] == SCHEMA
    places = {(frame["file"], frame["line"]) for frame in found["shared"]["frames"] if "file" in frame}
    assert places
    assert places <= {(line.file, line.line) for line in profile.trace.lines}


def test_the_summed_profile_is_one_mean_iteration(profile: Profile) -> None:
    summed = document(profile)["profiles"][0]
    recorded = sum(record.duration_us for record in profile.trace.records)
    assert summed["type"] == "sampled"
    assert sum(summed["weights"]) == pytest.approx(recorded / len(profile.trace.iterations))
    assert summed["endValue"] == pytest.approx(sum(summed["weights"]))
    assert len(summed["samples"]) == len(summed["weights"])


@pytest.mark.parametrize("name", ["profile", "gpu_profile"])
def test_evented_profiles_open_and_close_like_brackets(name: str, request: pytest.FixtureRequest) -> None:
    found = document(request.getfixturevalue(name))
    evented = [one for one in found["profiles"] if one["type"] == "evented"]
    assert evented
    for one in evented:
        stack: list[int] = []
        now = one["startValue"]
        for event in one["events"]:
            assert event["at"] >= now
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == []
        assert now <= one["endValue"]
        assert all(0 <= event["frame"] < len(found["shared"]["frames"]) for event in one["events"])
