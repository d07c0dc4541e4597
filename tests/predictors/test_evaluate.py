import json

import pytest

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


def test_another_split_has_files_of_its_own(measured_folder):
    assert evaluate(measured_folder, "hidden", ["learned"])["tables"] == {}


def test_the_learned_predictor_keeps_what_it_promises(shared_data):
    """On GPUs that nothing was learned from; the figures are those of the documentation, with a little room."""
    folder = shared_data / "gpu_latency"
    if not folder.is_dir():
        pytest.skip(f"no measured kernels at {folder}")
    tables = evaluate(folder, "visible", ["learned"])["tables"]
    kernels = tables["kernels"]["unseen GPUs, without convolutions"]["learned"]
    assert kernels["mean"] < 0.14
    assert 0.8 < kernels["covered"] <= 1
    assert tables["models"]["unseen GPUs"]["learned"]["mean"] < 0.09
    assert tables["forward nodes"]["unseen GPUs"]["learned"]["weighted"] < 0.13
    assert tables["backward nodes"]["unseen GPUs"]["learned"]["weighted"] < 0.14
