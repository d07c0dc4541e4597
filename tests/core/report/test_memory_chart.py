from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.build import profile_report
from skyline.report.html import render
from skyline.report.html.chart import BOX, memory_chart


@pytest.fixture
def report(profile):
    return profile_report(analyse(profile))


def test_areas_lie_upon_each_other_inside_the_box(report):
    chart = memory_chart(report, Path("/project"))
    assert [owner for owner, _ in chart.areas] == [
        "parameters",
        "optimizer",
        "gradients",
        "other",
        "activations",
    ]
    for _, path in chart.areas:
        numbers = [tuple(map(float, pair.split(","))) for pair in re.findall(r"[-\d.]+,[-\d.]+", path)]
        assert all(BOX.left <= x <= BOX.width - BOX.right for x, _ in numbers)
        assert all(BOX.top <= y <= BOX.height - BOX.bottom for _, y in numbers)


def test_the_lines_at_the_peak_stand_beside_it(report):
    chart = memory_chart(report, Path("/project"))
    assert chart.at_peak[0] == ("train.py:5", "loss = model(batch)", "40.0 MB")
    assert "Live at the peak" in render(report)


def test_without_a_timeline_there_is_no_chart(report):
    empty = replace(report, memory=replace(report.memory, timeline=()))
    assert memory_chart(empty, Path("/project")) is None
    assert "Memory over one iteration" not in render(empty)
