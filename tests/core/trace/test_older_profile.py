"""Profiles of the format before this one are read with their trials."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from skyline.errors import UsageError
from skyline.predict.batch_curve import batch_curve
from skyline.trace import store
from skyline.trace.phase import Phase
from skyline.trace.profile import Profile
from skyline.trace.trial import UNCHANGED, Choices, OpTiming

WORKS = [{"name": "aten::mm", "phase": "forward", "module": "net", "took_us": 900.0}]


def older(profile: Profile) -> dict[str, Any]:
    """The profile as that format had it, with its own size among the points, and two configs at two sizes."""
    document = cast("dict[str, Any]", msgspec.to_builtins(replace(profile, trials=())))
    points = [
        {
            "batch_size": size,
            "times": msgspec.to_builtins(times),
            "ratios": list(ratios),
            "peak_bytes": peak,
            "observed_leading": [size],
        }
        for size, times, ratios, peak in (
            (16, profile.times, (1.0, 1.0), profile.peak_bytes),
            *((one.choices.batch_size, one.times, one.ratios, one.peak_bytes) for one in profile.trials),
        )
    ]
    trials = [
        {"threads": threads, "number_format": "", "works": WORKS, "python_us": {"forward": 100}, **size}
        for size in ({}, {"batch_size": 8})
        for threads in (profile.environment.intraop_threads, 1)
    ]
    del document["trials"]
    return {**document, "schema": "skyline.capture/1", "points": points, "iteration_trials": trials}


def saved(document: dict[str, Any], folder: Path) -> Path:
    path = folder / "older.profile.json.gz"
    path.write_bytes(gzip.compress(msgspec.json.encode(document)))
    return path


def test_the_curve_and_the_configs_of_an_older_profile_are_trials(profile: Profile, tmp_path: Path) -> None:
    profile = replace(profile, environment=replace(profile.environment, intraop_threads=2))
    read = store.load(saved(older(profile), tmp_path))
    smaller, larger = profile.trials
    assert [one.choices for one in read.trials] == [
        Choices(8),
        Choices(32),
        UNCHANGED,
        Choices(threads=1),
        Choices(8, 1),
    ]
    operators = (OpTiming("aten::mm", Phase.FORWARD, "net", 900.0),)
    assert read.trials[0] == replace(smaller, operators=operators, python_us={Phase.FORWARD: 100.0})
    assert read.trials[1] == larger
    assert batch_curve(read).points == batch_curve(profile).points
    # It is saved in the new format, and stays as it is.
    assert store.load(store.save(read, tmp_path / "kept")) == read


def test_a_damaged_older_profile_is_refused(profile: Profile, tmp_path: Path) -> None:
    document = older(profile)
    document["points"][1]["ratios"] = [-1.0]
    with pytest.raises(UsageError, match="damaged"):
        store.load(saved(document, tmp_path))
