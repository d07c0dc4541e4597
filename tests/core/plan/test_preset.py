"""Presets: their measures one by one and together, on a predictor that counts."""

import json
from dataclasses import replace

import pytest

from skyline.cli.main import main
from skyline.errors import UsageError
from skyline.plan.cluster import cluster_named
from skyline.plan.kernel_time import KernelTimes
from skyline.plan.preset import ladder, timed
from skyline.plan.presets import preset_named, preset_names
from skyline.plan.strategy import Precision
from skyline.report.pages.preset import preset_page, verdict
from skyline.report.preset_report import preset_report


@pytest.fixture
def preset():
    return preset_named("academic-bert")


@pytest.fixture
def server(preset):
    return cluster_named(preset.cluster)


def test_the_whole_stack_is_the_published_recipe(preset, server):
    job = preset.job([one.name for one in preset.measures])
    assert (job.batch, job.model.sequence, job.model.fused) == (4096, 128, True)
    assert (job.parallel, job.precision, job.fused_optimizer) == (True, Precision.HALF, True)
    assert round(job.model.sequence * job.model.predicted) == 20
    assert job.stop_every == 0
    assert (server.gpu.name, server.gpus) == ("Titan V", 8)
    # 230.4 million sequences of 128 tokens and 25.6 million of 512.
    assert preset.tokens == pytest.approx(42.6e9, rel=1e-3)


def test_every_measure_changes_the_job(preset):
    for measure in preset.measures:
        assert measure.change(preset.start) != preset.start
        assert measure.change(measure.change(preset.start)) == measure.change(preset.start)


def test_the_micro_batch_fits_and_divides_the_batch(preset, server, counted):
    kernels = KernelTimes(server.gpu, counted)
    names = [one.name for one in preset.measures]
    for count in range(len(names) + 1):
        found = timed(preset.job(names[:count]), server, kernels)
        assert found is not None
        assert found.strategy.samples_per_step == found.job.batch
        assert found.memory.peak_bytes < server.gpu.memory_bytes
    small = replace(server, gpu=server.gpu.limited(4_000_000_000))
    assert timed(preset.start, small, kernels) is None


def test_each_row_is_a_whole_training(preset, server, counted):
    found = ladder(preset, server, counted)
    kernels = KernelTimes(server.gpu, counted)
    names = [one.name for one in preset.measures]
    assert found.start == timed(preset.start, server, kernels)
    assert found.joint == found.rungs[-1].stacked == timed(preset.job(names), server, kernels)
    amp = found.rungs[1]
    assert amp.stacked == timed(preset.job(["data_parallel", "amp"]), server, kernels)
    assert amp.alone == timed(preset.job(["amp"]), server, kernels)
    assert amp.without == timed(preset.job([one for one in names if one != "amp"]), server, kernels)


def test_an_update_that_is_not_fused_takes_longer_and_nothing_else(preset, server, counted):
    kernels = KernelTimes(server.gpu, counted)
    job = preset.job([one.name for one in preset.measures])
    fused, unfused = timed(job, server, kernels), timed(replace(job, fused_optimizer=False), server, kernels)
    parameters = job.model.layers(fused.strategy).parameters
    # 80 bytes of each parameter at 653 GB/s, in place of 1.3 times 28.
    more_us = parameters * (80 - 1.3 * 28) / 653e3
    assert unfused.step_us.value - fused.step_us.value == pytest.approx(more_us, rel=1e-3)


def test_stops_take_a_share_of_the_time(preset, server, counted):
    kernels = KernelTimes(server.gpu, counted)
    job = preset.job([one.name for one in preset.measures])
    often, rare = (timed(replace(job, stop_every=every), server, kernels) for every in (10**5, 10**6))
    assert 0 < rare.stopped < often.stopped < 1
    assert often.stopped / (1 - often.stopped) == pytest.approx(10 * rare.stopped / (1 - rare.stopped))
    assert often.tokens_per_s.value < timed(job, server, kernels).tokens_per_s.value


def test_gains_multiply_along_the_rows_and_not_alone(preset, server, counted):
    report = preset_report(preset, server, counted)
    product = 1.0
    for row in report.measures:
        product *= row.gain
    assert product == pytest.approx(report.gain)
    assert report.product != pytest.approx(report.gain, rel=0.02)
    # Eight GPUs gain no more than eightfold.
    assert 1 < report.measures[0].gain <= 8
    assert report.joint.hours.value == pytest.approx(report.tokens / report.joint.tokens_per_s.value / 3600)
    assert report.steps_a_day * 4096 * 128 == pytest.approx(report.joint.tokens_per_s.value * 86400)


def test_measures_can_be_left_out(preset, server, counted):
    report = preset_report(preset, server, counted, ["amp"])
    assert "amp" not in [row.name for row in report.measures]
    assert report.left_out == ("amp",)
    whole = preset_report(preset, server, counted)
    amp = next(row for row in whole.measures if row.name == "amp")
    assert whole.joint.tokens_per_s.value / report.joint.tokens_per_s.value == pytest.approx(amp.without)
    with pytest.raises(UsageError, match="has no measure wings"):
        preset_report(preset, server, counted, ["wings"])


def test_a_training_that_does_not_fit_is_said(preset, server, counted):
    small = replace(server, gpu=server.gpu.limited(7_000_000_000))
    report = preset_report(preset, small, counted)
    assert report.start is None
    assert report.measures[0].gain is None
    assert "does not fit" in str(preset_page(report))
    tiny = replace(server, gpu=server.gpu.limited(4_000_000_000))
    assert "does not fit" in verdict(preset_report(preset, tiny, counted))[0]


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    target = tmp_path / "preset.json"
    assert main(["plan", "--preset", "academic-bert", "--json", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "All measures together: " in printed
    assert "24 hours on 8 Titan V of 12 GB" in printed
    report = json.loads(target.read_bytes())
    assert report["schema"] == "skyline.plan-preset/1"
    assert [row["name"] for row in report["measures"]][:2] == ["data_parallel", "amp"]
    assert {row["semantics"] for row in report["measures"]} == {"exact", "numerics", "convergence"}
    words = ["--cluster", "g4dn.12xlarge", "--nodes", "2", "--tokens", "1B", "--without", "amp,rare_stops"]
    assert main(["plan", "--preset", "academic-bert", *words, "--json", str(target)]) == 0
    other = json.loads(target.read_bytes())
    assert (other["gpus"], other["tokens"], other["left_out"]) == (8, 1e9, ["amp", "rare_stops"])
    assert other["joint"]["usd"]["value"] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "academic-cat"], f"Available: {', '.join(preset_names())}"),
        (["--preset", "academic-bert", "train.py"], "a script cannot be combined with --preset"),
        (
            ["--preset", "academic-bert", "--global-batch", "8"],
            "--global-batch cannot be combined with --preset",
        ),
        (["--preset", "academic-bert", "--precision", "bf16"], "own number formats"),
        (["--preset", "academic-bert", "--gpus", "4..8"], "one number of GPUs"),
        (["--model", "gpt2", "--cluster", "dgx-a100", "--without", "amp"], "--without needs --preset"),
        (["--model", "gpt2"], "--cluster is missing"),
    ],
)
def test_wrong_usage_says_what_is_wrong(words, message, capsys):
    assert main(["plan", *words]) == 2
    assert message in capsys.readouterr().err
