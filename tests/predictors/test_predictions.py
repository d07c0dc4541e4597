import pytest

from skyline.errors import UsageError
from skyline.predict.registry import predictors
from skyline_predictors.data_gpu import gpu_of
from skyline_predictors.kernel_row import shape_of
from skyline_predictors.predictions import all_predictors, predict_graph, predict_kernels

ROW = {"op": "linear", "gpu": "H100", "m": "4096", "n": "4096", "k": "1024"}


@pytest.mark.parametrize("name", sorted(all_predictors()))
def test_every_predictor_answers_every_kind_of_row(name, measured_folder):
    rows = [
        ROW,
        {**ROW, "gpu": "L4", "latency_ms": "0.1", "kernel": "whatever", "dtype": "fp32"},
        {"op": "bmm", "gpu": "A100-40", "b": 16.0, "m": 512, "n": 512, "k": 64.0},
        {"op": "gelu", "gpu": "V100", "rows": 8192, "cols": 1024},
        {"op": "softmax", "gpu": "Z9", "rows": "8192", "cols": "1024"},
        {"op": "ln", "gpu": "P4", "rows": "8192", "cols": "1024"},
        {
            "op": "conv",
            "gpu": "T4",
            "b": 8,
            "cin": 64,
            "cout": 64,
            "ksize": 3,
            "isize": 56,
            "stride": 1,
            "pad": 1,
        },
    ]
    times = predict_kernels(rows, name, measured_folder)
    assert len(times) == len(rows)
    assert all(0.002 < time < 100 for time in times)


def test_installed_predictors_are_among_all():
    assert set(predictors()) <= set(all_predictors())
    assert {"roofline", "learned"} <= set(all_predictors())


def test_a_gpu_that_no_table_has_is_told_by_the_data(measured_folder):
    spec = gpu_of("Z9", measured_folder)
    assert (spec.full_name, spec.multiprocessors, spec.tflops_fp32) == ("Zentral 9", 100, 51.2)
    with pytest.raises(UsageError, match="Z9"):
        gpu_of("Z9")
    with pytest.raises(UsageError, match="devices") as raised:
        predict_kernels([{**ROW, "gpu": "nothing"}], data_dir=measured_folder)
    assert "devices.csv" in raised.value.hint


def test_the_board_that_was_measured_is_meant():
    assert gpu_of("A100-40").board_power_watts == 250
    assert gpu_of("A100-SXM-40").board_power_watts == 400


def test_a_row_without_sizes_is_refused_by_name():
    with pytest.raises(UsageError, match="'k'"):
        predict_kernels([{"op": "linear", "gpu": "H100", "m": 1, "n": 2, "k": ""}])
    with pytest.raises(UsageError, match="no predictor 'crystal'"):
        predict_kernels([ROW], "crystal")


def test_a_training_graph_takes_longer_and_views_take_nothing(measured_folder):
    inference = predict_graph("tiny-inf-64-2", "T4", measured_folder)
    training = predict_graph("tiny-train-64-2", "T4", measured_folder)
    assert inference["bw_ms"] == 0
    # Sums in another order may differ in the last digit.
    assert [inference["e2e_ms"], training["fw_ms"]] == pytest.approx([inference["fw_ms"]] * 2, rel=1e-12)
    assert training["e2e_ms"] == pytest.approx(training["fw_ms"] + training["bw_ms"])
    assert 1.5 < training["bw_ms"] / training["fw_ms"] < 3.5


def test_a_graph_of_several_gpus_is_refused(measured_folder):
    with pytest.raises(UsageError, match="several GPUs"):
        predict_graph("tiny-train-64-2-dp4", "H100", measured_folder)
    with pytest.raises(UsageError, match="no graph 'tiny'"):
        predict_graph("tiny", "H100", measured_folder)


@pytest.mark.parametrize(
    ("written", "meant"), [("fp32", "float32"), ("float32", "float32"), ("", "float32"), ("bf16", "bfloat16")]
)
def test_number_formats_are_read_as_people_write_them(written, meant):
    shape = shape_of({**ROW, "dtype": written})
    assert set(shape.dtypes) == {meant}
    assert shape.bytes_moved == (4 if meant == "float32" else 2) * (4096 * 1024 * 2 + 4096 * 4096)
