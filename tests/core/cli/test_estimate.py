"""``skyline estimate``: answers from a profile with observed training, in figures that can be worked out on paper."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.trace import store
from skyline.trace.observed_training import GradientSample, ObservedSave, ObservedTraining, TrainingGoal
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine

Run = Callable[..., Any]

# Four gradients of 16 samples with the squared norm 3, and inner products 1: noise scale 16 * (3 - 1) / 1 = 32.
PRODUCTS = tuple(tuple(3.0 if row == column else 1.0 for column in range(4)) for row in range(4))


@pytest.fixture
def observed(profile: Profile, script: Path) -> Path:
    training = ObservedTraining(
        samples=16,
        gradients=(GradientSample(5, 5, PRODUCTS, 2.5),),
        iterations=700,
        iteration_ms=10.0,
        startup_s=4.0,
        warming_s=1.0,
        epoch_end_s=2.0,
    )
    loaders = (replace(profile.loaders[0], dataset_size=None),)
    return store.save(
        replace(
            profile,
            script=str(script),
            training=training,
            loaders=loaders,
            working_directory=str(script.parent),
        ),
        script.parent,
    )


def test_samples_time_and_cost_by_batch_size(skyline: Run, observed: Path) -> None:
    ran = skyline("estimate", str(observed), "--samples", "1e6", "--price", "36", "--json", "-")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    assert report["schema"] == "skyline.estimate/1"
    assert report["noise"]["value"] == pytest.approx(32)
    rows = {row["batch_size"]: row for row in report["rows"]}
    now, larger = rows[16], rows[32]
    assert now["samples_ratio"]["value"] == 1
    assert now["steps"]["value"] == pytest.approx(62_500)
    # 62,500 iterations of 10 ms, five seconds before them, a cent a second.
    assert now["time_s"]["value"] == pytest.approx(630)
    assert now["usd"]["value"] == pytest.approx(6.30)
    # (1 + 32/32) / (1 + 16/32) of the samples, 32 in 18 ms.
    assert larger["samples_ratio"]["value"] == pytest.approx(4 / 3)
    assert larger["time_s"]["value"] == pytest.approx(5 + 4 / 3 * 1e6 / 32 * 0.018)
    assert report["fastest"] == min(rows, key=lambda size: rows[size]["time_s"]["value"])
    assert any("the length of an epoch is not known" in one for one in report["not_included"])


def test_ends_of_epochs_count_where_an_epoch_has_a_length(
    skyline: Run, observed: Path, profile: Profile
) -> None:
    known = replace(store.load(observed), loaders=profile.loaders)
    path = store.save(replace(known, id="b2"), observed.parent)
    ran = skyline("estimate", str(path), "--epochs", "3", "--json", "-")
    report = json.loads(ran.out)
    now = next(row for row in report["rows"] if row["batch_size"] == 16)
    assert report["samples"] == 30_000
    assert now["time_s"]["value"] == pytest.approx(30_000 / 16 * 0.010 + 5 + 3 * 2)
    assert report["not_included"] == []
    # The data set of 10,000 raises the squared norm by a share of the noise.
    assert report["noise"]["value"] == pytest.approx(1 / (1 / 32 + 1 / 10_000))


def test_the_page_and_its_html(skyline: Run, observed: Path, tmp_path: Path) -> None:
    ran = skyline("estimate", str(observed), "--iterations", "1e5", "--html", "page.html")
    assert ran.code == 0, ran.err
    for words in ("critical batch size 32 samples", "◀ now", "Start-up: 4.0 s", "McCandlish", "2.5"):
        assert words in ran.out
    assert "critical batch size" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_given_noise_scale_needs_no_observation(skyline: Run, saved: Path) -> None:
    ran = skyline("estimate", str(saved), "--epochs", "90", "--noise-scale", "16", "--json", "-")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    row = next(row for row in report["rows"] if row["batch_size"] == 32)
    assert row["samples_ratio"]["value"] == pytest.approx((16 + 32) / (16 + 16))
    assert "the training was not observed" in report["not_included"][0]


def test_a_what_if_of_another_batch_size_has_the_time_to_the_same_loss(
    skyline: Run, observed: Path, profile: Profile
) -> None:
    ran = skyline("whatif", str(observed), "batch_size=32", "--json", "-")
    found = json.loads(ran.out)["estimates"][0]["to_loss"]
    # 4/3 of the samples, of which 32 take 18 ms in place of 2 x 10 ms.
    assert found["samples_ratio"]["value"] == pytest.approx(4 / 3)
    assert found["time_ratio"]["value"] == pytest.approx(4 / 3 * 18 / 20)
    assert found["time_ratio"]["low"] < found["time_ratio"]["value"] < found["time_ratio"]["high"]
    assert (found["time_s"], found["usd"]) == (None, None)

    goal = TrainingGoal(1e6, 36.0, None, "1,000,000 samples")
    path = store.save(replace(store.load(observed), id="e5", goal=goal), observed.parent)
    ran = skyline("whatif", str(path), "batch_size=32", "--json", "-")
    told = json.loads(ran.out)["estimates"][0]["to_loss"]
    estimated = json.loads(
        skyline("estimate", str(path), "--samples", "1e6", "--price", "36", "--json", "-").out
    )
    row = next(row for row in estimated["rows"] if row["batch_size"] == 32)
    assert told["time_s"]["value"] == pytest.approx(row["time_s"]["value"])
    assert told["usd"]["value"] == pytest.approx(row["usd"]["value"])
    assert told["now_s"]["value"] == pytest.approx(630)
    ran = skyline("whatif", str(path), "batch_size=32")
    words = " ".join(ran.out.split())
    assert "to the same loss (estimate): 1.20x" in words
    assert "(now 10.5 min)" in words
    assert "critical batch size 32 samples, measured; 1,000,000 samples" in words
    # A watched run that reached its target tells the goal of a profile that has none.
    folder = observed.parent / ".skyline"
    folder.mkdir(exist_ok=True)
    logged = {"kind": "logged", "at_s": 1.0, "rank": 0, "samples": 2e6, "status": "success", "batch_size": 16}
    lines = ({"schema": "skyline.watch/1", "started": "", "command": []}, logged)
    name = f"{Path(store.load(observed).script).stem}-watch-20260101-000000.jsonl"
    (folder / name).write_text("\n".join(map(json.dumps, lines)))
    ran = skyline("whatif", str(observed), "batch_size=32", "--json", "-")
    watched = json.loads(ran.out)["estimates"][0]["to_loss"]
    assert watched["now_s"]["value"] == pytest.approx(5 + 2e6 / 16 * 0.010)
    assert "2,000,000 samples to the target in a watched run" in watched["basis"]
    # With the same batch size the samples stay, and a profile without a noise scale has no such answer.
    ran = skyline("whatif", str(path), "num_workers=2", "--json", "-")
    assert json.loads(ran.out)["estimates"][0]["to_loss"] is None
    plain = store.save(replace(store.load(observed), id="f6", training=None), observed.parent)
    ran = skyline("whatif", str(plain), "batch_size=32", "--json", "-")
    assert json.loads(ran.out)["estimates"][0]["to_loss"] is None


def test_the_profile_of_a_script_keeps_the_stated_training(skyline: Run, saved: Path, script: Path) -> None:
    ran = skyline("estimate", str(script), "--epochs", "90", "--noise-scale", "16", "--price", "2.5")
    assert ran.code == 0, ran.err
    goal = store.load(saved, script).goal
    assert goal is not None
    assert (goal.noise_scale, goal.usd_per_hour, goal.source) == (16, 2.5, "90 epochs")
    ran = skyline("whatif", str(script), "batch_size=32", "--json", "-")
    found = json.loads(ran.out)["estimates"][0]["to_loss"]
    assert found["samples_ratio"]["value"] == pytest.approx((16 + 32) / (16 + 16))
    assert found["basis"] == "critical batch size 16 samples, as given; 90 epochs"
    assert found["usd"]["value"] == pytest.approx(found["time_s"]["value"] * 2.5 / 3600)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "with one option"),
        (("--epochs", "2", "--samples", "5"), "with one option"),
        (("--epochs", "0"), "must be more than 0"),
        (("--epochs", "3"), "The length of an epoch is not known"),
    ],
)
def test_the_amount_of_training_has_to_be_clear(
    skyline: Run, observed: Path, words: tuple[str, ...], said: str
) -> None:
    ran = skyline("estimate", str(observed), *words)
    assert ran.code in {2, 3}
    assert said in ran.err


def test_epochs_of_a_script_without_a_loader_are_refused_before_it_runs(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "data.py").write_text("import numpy\n")
    (tmp_path / "train.py").write_text("import sys, torch\nimport data\nsys.exit('it ran')\n")
    ran = skyline("estimate", "train.py", "--epochs", "3")
    assert ran.code == 2
    assert "train.py makes no DataLoader" in ran.err
    assert "--iterations" in ran.err
    assert "it ran" not in ran.err
    (tmp_path / "data.py").write_text("from torch.utils.data import DataLoader\n")
    assert "it ran" in skyline("estimate", "train.py", "--epochs", "3").err


def test_equal_gradients_have_no_critical_batch_size(skyline: Run, observed: Path) -> None:
    known = store.load(observed)
    assert known.training is not None
    ones = tuple((1.0,) * 4 for _ in range(4))
    training = replace(known.training, gradients=(GradientSample(5, 5, ones, None),))
    path = store.save(replace(known, id="c3", training=training), observed.parent)
    ran = skyline("estimate", str(path), "--samples", "1000")
    assert ran.code == 3
    assert "no noise to measure" in ran.err


def test_checkpoints_have_an_interval_with_the_least_time_lost(
    skyline: Run, observed: Path, script: Path
) -> None:
    known = store.load(observed)
    assert known.training is not None
    line = CodeLine(str(script), 8)
    saves = tuple(ObservedSave(number, 0.5, 3_000_000, line) for number in (100, 300, 500))
    training = replace(known.training, saves=saves)
    path = store.save(replace(known, id="d4", training=training), observed.parent)
    ran = skyline("estimate", str(path), "--samples", "1e6", "--mtbf", "10", "--json", "-")
    saving = json.loads(ran.out)["saving"]
    # Half a second for every two: failures, one in 36,000 s, hardly count.
    assert saving["every"] == 200
    assert saving["lost_now"] == pytest.approx(0.25, abs=0.001)
    assert saving["best"] == pytest.approx((2 * 0.5 * 36_000) ** 0.5 / 0.010, rel=0.01)
    assert saving["lost_best"] < 0.01
    ran = skyline("estimate", str(path), "--samples", "1e6")
    assert ran.code == 0, ran.err
    words = " ".join(ran.out.split())
    for said in (
        "Checkpoints",
        "Young/Daly",
        "3.0 MB",
        "train.py line 8",
        "every 1,145 hours",
        "checkpoint_every=",
    ):
        assert said in words, said


def test_a_training_without_saves_has_no_such_section(skyline: Run, observed: Path) -> None:
    ran = skyline("estimate", str(observed), "--samples", "1e6")
    assert "Young" not in ran.out


def test_an_interval_between_checkpoints_is_applied_and_no_what_if(
    skyline: Run, saved: Path, script: Path
) -> None:
    asked = skyline("whatif", str(saved), "checkpoint_every=500")
    assert asked.code == 2
    assert "does not change the time of an iteration" in asked.err
    ran = skyline("apply", str(script), "checkpoint_every=500")
    assert ran.code != 0
    assert "does not call torch.save" in ran.err
