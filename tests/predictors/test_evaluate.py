import csv
import gzip
import json

import pytest

from skyline.errors import UsageError
from skyline_predictors.evaluate import evaluate, main
from skyline_predictors.scores import Pair, score


def test_errors_are_relative_to_what_was_measured():
    pairs = [
        Pair("A", "bmm", "one", 1.0, 1.5, True, True),
        Pair("A", "bmm", "two", 4.0, 3.0, True, False),
    ]
    found = score(pairs)
    assert found is not None
    assert (found.rows, found.mean, found.worst) == (2, 0.375, 0.5)
    assert found.weighted == pytest.approx(1.5 / 5)
    assert found.bias == pytest.approx(0.125)
    assert found.covered == 0.5
    assert score([]) is None


def test_a_folder_with_little_in_it_is_scored_as_far_as_it_goes(measured_folder, capsys):
    assert main([str(measured_folder), "--split", "visible", "--json", "-"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["tables"]["models"]["all"]["learned"]["rows"] == 2
    assert content["tables"]["kernels"]["unseen GPUs, without convolutions"]["roofline"]["rows"] == 3
    assert content["models without a graph"] == ["lost inf 64-2 on H100"]
    assert "forward nodes" not in content["tables"]


def test_the_page_has_all_predictors_side_by_side(measured_folder, tmp_path):
    results = tmp_path / "results"
    assert main([str(measured_folder), "--results", str(results)]) == 0
    text = (results / "predictors.md").read_text(encoding="utf-8")
    assert "Whole models, as written" in text
    assert all(name in text for name in ("roofline", "learned"))
    assert json.loads((results / "predictors.json").read_text(encoding="utf-8"))["split"] == "visible"


def test_a_split_without_any_file_is_a_clear_error(measured_folder, capsys):
    with pytest.raises(UsageError, match="hidden"):
        evaluate(measured_folder, "hidden", ["learned"])
    assert main([str(measured_folder), "--split", "hidden"]) == 2
    assert "kernels_test_hidden.csv.gz" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no folder"):
        evaluate(measured_folder / "nowhere", "visible")
    with pytest.raises(UsageError, match="no predictor"):
        evaluate(measured_folder, "visible", ["oracle"])


def test_rows_that_cannot_be_scored_are_left_out_and_named(measured_folder):
    path = measured_folder / "kernels_test_other.csv.gz"
    head = ["op", "gpu", "b", "m", "n", "k", "rows", "cols", "latency_ms"]
    rows = [
        ["bmm", "T4", 16, 512, 512, 64, "", "", 0.5],
        ["bmm", "T4", 16, 512, 512, 64, "", "", "nan"],
        ["bmm", "T4", 16, 512, 512, "nan", "", "", 0.5],
        ["bmm", "Q77", 16, 512, 512, 64, "", "", 0.5],
        ["swish", "T4", "", "", "", "", 1024, 1024, 0.5],
        ["conv", "T4", 1, "", "", "", "", "", 0.5],
    ]
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    content = evaluate(measured_folder, "other", ["learned"])
    assert content["tables"]["kernels"]["seen GPUs, without P4 linear"]["learned"]["rows"] == 2
    reasons = " ".join(one["why"] for one in content["left out"])
    assert all(word in reasons for word in ("latency_ms", "'k'", "'Q77'", "'conv'", "op_labels_other.csv.gz"))


def test_a_damaged_file_is_named(measured_folder):
    (measured_folder / "kernels_test_visible.csv.gz").write_bytes(b"no archive")
    with pytest.raises(UsageError, match=r"kernels_test_visible\.csv\.gz"):
        evaluate(measured_folder, "visible", ["learned"])


def test_the_learned_predictor_keeps_what_it_promises(shared_data):
    """On GPUs that nothing was learned from; the figures are those of the documentation, with a little room."""
    folder = shared_data / "gpu_latency"
    if not folder.is_dir():
        pytest.skip(f"no measured kernels at {folder}")
    tables = evaluate(folder, "visible", ["learned"])["tables"]
    kernels = tables["kernels"]["unseen GPUs, without convolutions"]["learned"]
    assert kernels["mean"] < 0.14
    assert 0.8 < kernels["covered"] <= 1
    assert tables["models"]["unseen GPUs"]["learned"]["mean"] < 0.08
    assert tables["models"]["all"]["learned"]["mean"] < 0.08
    assert tables["forward nodes"]["unseen GPUs"]["learned"]["weighted"] < 0.13
    assert tables["backward nodes"]["unseen GPUs"]["learned"]["weighted"] < 0.14
