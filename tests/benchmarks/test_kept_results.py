"""Rows that are not measured again stay in a result file."""

from __future__ import annotations


def test_rows_of_fused_runs_stay_as_they_were_measured(tmp_path):
    import fused_jobs
    from result_file import RESULTS

    rows = fused_jobs.kept(RESULTS)
    assert {(row.script, row.jobs) for row in rows} >= {("perceptron", 2), ("ddpm", 8)}
    assert fused_jobs.page(rows, []).count("perceptron") == 2
    assert fused_jobs.kept(tmp_path) == []


def test_rows_of_adaptive_softmax_stay_as_they_were_measured(tmp_path):
    import adaptive_softmax
    from result_file import RESULTS

    reports = adaptive_softmax.kept(RESULTS)
    assert tuple(reports) == adaptive_softmax.ROWS
    assert reports["words.py", "1600", ()]["script"] == "words.py"
    assert (
        adaptive_softmax.name_of(("classes.py", "5000", ("--labels", "even")))
        == "classes.py 5000 --labels even"
    )
    assert adaptive_softmax.kept(tmp_path) == {}
