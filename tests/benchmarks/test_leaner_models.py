from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def _row(script: str, measured: float, null: float = 1.0) -> dict[str, Any]:
    said = {
        "names": ["kronecker=2"],
        "ratio": 0.8,
        "low": 0.7,
        "high": 0.9,
        "rule": 1.0,
        "provenance": "modelled",
    }
    return {"script": script, "said": said, "measured": {"value": measured}, "null": {"value": null}}


def _page(folder: Path, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"figures": rows}))


def test_a_later_measurement_stands_in_place_of_the_first_one_where_it_is_valid(tmp_path: Path) -> None:
    import leaner_models

    _page(tmp_path, "unseen_whatifs_4", [_row("a.py", 0.5), _row("a.py", 0.6), _row("b.py", 0.7)])
    _page(tmp_path, "leaner_again", [_row("a.py", 0.55), _row("b.py", 0.9, null=1.2)])
    found, _ = leaner_models.rows(tmp_path)
    assert sorted((one.script, one.measured, one.page) for one in found) == [
        ("a.py", 0.55, "leaner_again"),
        ("a.py", 0.6, "unseen_whatifs_4"),
        ("b.py", 0.7, "unseen_whatifs_4"),
    ]


def test_a_range_from_none_to_all_counts_neither_as_right_nor_as_wrong(tmp_path: Path) -> None:
    import leaner_models

    unknown = _row("a.py", 0.5)
    unknown["said"] |= {"names": ["stale_embeddings=0.001"], "low": 0.0, "high": 1.0}
    _page(tmp_path, "leaner_rows", [unknown, _row("b.py", 0.85)])
    found, missing = leaner_models.rows(tmp_path)
    page = leaner_models.body(found, missing)
    (row,) = [line for line in page.splitlines() if "stale_embeddings=0.001" in line]
    assert "not known" in row
    assert "0 of 0" in next(line for line in page.splitlines() if line.startswith("| stale_embeddings"))
    assert "1 of 1" in next(line for line in page.splitlines() if line.startswith("| all"))


def test_a_curve_counts_by_the_values_that_did_not_run(tmp_path: Path) -> None:
    import leaner_models

    def point(told_ms: float, measured_ms: float, provenance: str) -> dict[str, Any]:
        ends = {"low_ms": told_ms / 1.1, "high_ms": told_ms * 1.1}
        return {"predicted_ms": told_ms, "measured_ms": measured_ms, "provenance": provenance, **ends}

    points = [
        point(1.0, 1.0, "measured"),
        point(2.0, 2.5, "interpolated"),
        point(3.0, 3.0, "measured"),
        point(6.0, 5.0, "interpolated"),
        point(9.0, 9.0, "measured"),
    ]
    _page(tmp_path, "sweep_curves", [{"name": "a.py width=1:5:1", "points": points}])
    ((row,), _) = leaner_models.rows(tmp_path)
    assert (row.script, row.change) == ("a.py", "width=1:5:1")
    assert (row.predicted, row.measured) == (3.0, 2.0)
    assert row.high == pytest.approx(3.0 * 1.1**2**0.5)
    assert row.low == pytest.approx(3.0 / 1.1**2**0.5)


def _leaner(predicted: float, low: float, high: float, measured: float, *, nothing: bool = False) -> Any:
    import leaner_models

    return leaner_models.LeanerRow(
        "fuse_jobs", "a.py", "fuse_jobs=2", measured, predicted, low, high, 2.0, 1.0, "fused_jobs", nothing
    )


def test_a_sign_is_clear_where_the_whole_range_lies_on_one_side(tmp_path: Path) -> None:
    """Both counts are shown: a wrong likely value stays a wrong sign, whatever its range."""
    import leaner_models

    rows = [
        _leaner(1.8, 1.5, 2.5, 2.2),
        _leaner(1.8, 1.5, 2.5, 1.7),
        _leaner(1.8, 1.7, 1.9, 1.7),
        _leaner(1.8, 1.7, 1.9, 2.2),
        _leaner(2.0, 2.0, 2.0, 1.8, nothing=True),
        _leaner(1.8, 1.5, 2.5, 2.01),
    ]
    assert [one.clear for one in rows] == [False, False, True, True, True, False]
    said = leaner_models.body(rows, [])
    line = next(one for one in said.splitlines() if one.startswith("| all"))
    assert [cell.strip() for cell in line.split("|")][8:10] == ["2 of 5", "1 of 3"]
    assert leaner_models.SIGNS in said
    signs = [[cell.strip() for cell in one.split("|")][9] for one in said.splitlines() if "a.py" in one]
    assert signs == ["wrong, not clear", "right, not clear", "right", "wrong", "wrong", ""]


def test_small_shares_are_compared_by_their_difference(tmp_path: Path) -> None:
    """0.0002 for 0.0003 is right to a hundredth of a point, and no error of a third."""
    import leaner_models

    share = _row("a.py", 0.0003)
    share["said"] |= {
        "names": ["stale_embeddings=0.001"],
        "ratio": 0.0002,
        "low": 0.0,
        "high": 1.0,
        "provenance": "share of rows that change: 8 iterations",
    }
    _page(tmp_path, "leaner_rows", [share])
    ((row,), missing) = leaner_models.rows(tmp_path)
    assert row.error == pytest.approx(-0.0001)
    assert row.unchanged_error == pytest.approx(0.9997)
    page = leaner_models.body([row], missing)
    (line,) = [line for line in page.splitlines() if "| a.py" in line]
    assert "-0.0 points" in line
    assert "+100.0 points" in line
    assert leaner_models.SHARES in page
