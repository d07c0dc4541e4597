"""The errors of a curve use only values that were predicted before they were measured."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest


def _point(value: float, told_ms: float, measured_ms: float, *, ran: bool) -> Any:
    from sweep_curves import CurvePoint

    provenance = "measured" if ran else "interpolated"
    return CurvePoint(value, told_ms, 0.9 * told_ms, 1.1 * told_ms, measured_ms, 0.0, value, provenance, 1.0)


def _curve() -> Any:
    """Three values ran; their second measurement is 2 % lower. One of the other values is off by 10 %."""
    from sweep_curves import Curve

    points = (
        _point(1, 1.0, 0.98, ran=True),
        _point(2, 2.2, 2.0, ran=False),
        _point(4, 4.0, 3.92, ran=True),
        _point(8, 8.0, 8.0, ran=False),
        _point(16, 16.0, 15.68, ran=True),
    )
    return Curve("a.py width=1:16:x2", points, (), (), 0)


def test_values_that_ran_count_in_no_error() -> None:
    found = _curve()
    assert [one.value for one in found.answered] == [2, 8]
    assert found.inside == 2
    # Of two values, both shapes are off by the same part: the root of the ratio of 4 to 3.64.
    assert found.shape_error(lambda one: one.predicted_ms) == pytest.approx(1.1**0.5 - 1, rel=0.1)
    assert found.shape_error(lambda one: one.measured_ms) == pytest.approx(0)
    assert found.again == pytest.approx(1 / 0.98 - 1)


def test_a_curve_without_runs_counts_all_values() -> None:
    from sweep_curves import Curve

    found = Curve("a.py", tuple(_point(value, value, value, ran=False) for value in (1, 2)), (), (), 0)
    assert (len(found.answered), found.again, found.on_the_line) == (2, None, None)


def test_the_page_has_a_cell_for_each_title() -> None:
    from sweep_curves import body

    lines = [line for line in body([_curve()]).splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines[:3]} == {13}
    assert "2 of 2" in lines[2]
    assert [line for line in lines if "| ran" in line and "measured within" not in line]


def test_other_curves_of_the_result_file_stay(tmp_path: Path) -> None:
    from sweep_curves import kept

    assert kept(tmp_path) == []
    old = {"name": "old", "points": [{"value": 1.0}]}
    figures = [asdict(_curve()), old]
    tmp_path.joinpath("sweep_curves.json").write_text(json.dumps({"figures": figures}), encoding="utf-8")
    assert kept(tmp_path) == [_curve()]
