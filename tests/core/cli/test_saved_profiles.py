from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.interval import Interval
from skyline.predict.gpus import gpu_named
from skyline.trace import store
from skyline.trace.profile import Prediction

Run = Callable[..., Any]


def test_show_prints_the_summary(skyline: Run, saved: Path) -> None:
    ran = skyline("show", str(saved))
    assert ran.code == 0
    assert ran.err == ""
    assert "10.0 ms" in ran.out
    assert "train.py:5" in ran.out
    assert saved.name in ran.out


def test_show_finds_the_latest_of_a_script_or_of_this_folder(skyline: Run, saved: Path) -> None:
    assert skyline("show", "train.py").out == skyline("show").out == skyline("show", str(saved)).out


def test_show_json_is_alone_on_stdout(skyline: Run, saved: Path) -> None:
    by_option, by_format = (
        skyline("show", str(saved), "--json", "-"),
        skyline("show", str(saved), "--format", "json"),
    )
    assert json.loads(by_option.out)["schema"] == "skyline.profile/1"
    assert by_option.out == by_format.out


def test_show_json_to_a_file_leaves_the_text(skyline: Run, saved: Path, tmp_path: Path) -> None:
    ran = skyline("show", str(saved), "--json", "report.json")
    assert "Costliest lines" in ran.out
    assert json.loads((tmp_path / "report.json").read_bytes())["script"].endswith("train.py")


def test_show_html(skyline: Run, saved: Path) -> None:
    ran = skyline("show", str(saved), "--format", "html")
    assert ran.out.startswith("<!doctype html>")
    assert ran.out.rstrip().endswith("</html>")


def test_show_says_that_the_source_changed(skyline: Run, saved: Path, script: Path) -> None:
    script.write_text(script.read_text() + "# more\n")
    assert "changed since this profile was made: train.py" in skyline("show", str(saved)).err


def test_show_without_any_profile(skyline: Run, script: Path) -> None:
    here, of_script = skyline("show"), skyline("show", str(script))
    assert here.code == of_script.code == 2
    assert "skyline profile" in here.err
    assert f"skyline profile {script}" in of_script.err


def test_a_saved_profile_names_the_script_in_the_commands_that_change_it(skyline: Run, saved: Path) -> None:
    ran = skyline("whatif", str(saved), "num_workers=1")
    assert "skyline apply train.py num_workers=1" in ran.out


def test_all_whatifs_ranked(skyline: Run, saved: Path) -> None:
    ran = skyline("whatif", str(saved))
    assert ran.code == 0
    for name in ("batch_size", "num_workers", "fused_optimizer", "amp"):
        assert name in ran.out


def test_whatifs_singly_and_together(skyline: Run, saved: Path) -> None:
    ran = skyline("whatif", str(saved), "batch_size=32", "--json", "-", "fused_optimizer")
    answer = json.loads(ran.out)
    assert answer["schema"] == "skyline.whatif/2"
    assert [estimate["name"] for estimate in answer["estimates"]] == ["batch_size", "fused_optimizer"]
    assert answer["combined"]["batch_size"] == 32


def test_whatif_of_a_script_reuses_its_profile(skyline: Run, saved: Path) -> None:
    ran = skyline("whatif", "train.py", "batch_size=32")
    assert ran.code == 0
    assert "from the profile of 2026-01-02" in ran.err
    assert "skyline apply train.py batch_size=32" in ran.out


def test_a_prediction_stands_next_to_the_measurement(skyline: Run, saved: Path, script: Path) -> None:
    """``skyline profile --gpu h100`` was asked later: each question finds the profile of its kind."""
    measured = store.load(saved, script)
    made = Prediction("H100", "roofline", "figures", Interval.exact(1.0), 0.0)
    environment = replace(measured.environment, memory_capacity_bytes=gpu_named("H100").memory_bytes)
    predicted = replace(
        measured,
        id="predicted",
        created="2026-03-03T00:00:00+00:00",
        mode="predicted",
        prediction=made,
        environment=environment,
    )
    later = store.save(predicted)
    os.utime(later, (2e9, 2e9))
    here = skyline("whatif", "train.py", "batch_size=32")
    assert here.code == 0, here.err
    assert "from the profile of 2026-01-02" in here.err
    there = skyline("whatif", "--gpu", "h100", "train.py", "batch_size=32")
    assert there.code == 0, there.err
    assert "from the profile of 2026-03-03" in there.err


@pytest.mark.parametrize("command", ["whatif", "apply"])
def test_an_unknown_whatif_lists_the_known(skyline: Run, saved: Path, command: str) -> None:
    ran = skyline(command, "train.py", "fused_optimiser")
    assert ran.code == 2
    assert "'fused_optimiser'" in ran.err
    assert "fused_optimizer" in ran.err
    assert ran.out == ""


@pytest.mark.parametrize("value", ["batch_size=", "batch_size=many", "batch_size=0", "=3"])
def test_a_whatif_with_a_wrong_value(skyline: Run, saved: Path, value: str) -> None:
    ran = skyline("whatif", str(saved), value)
    assert ran.code == 2
    assert ran.err


def test_a_whatif_asked_twice(skyline: Run, saved: Path) -> None:
    assert "given twice" in skyline("whatif", str(saved), "batch_size=8", "batch_size=9").err


def test_apply_prints_a_diff_and_writes_nothing(skyline: Run, saved: Path, script: Path) -> None:
    before = script.read_bytes()
    ran = skyline("apply", "train.py", "batch_size=32", "--diff")
    assert ran.code == 0
    assert "+loader = DataLoader(data, batch_size=32)" in ran.out
    assert script.read_bytes() == before


def test_apply_writes_and_keeps_the_permissions(skyline: Run, saved: Path, script: Path) -> None:
    script.chmod(0o751)
    ran = skyline("apply", "train.py", "batch_size=32")
    assert ran.code == 0, ran.err
    assert "train.py:2: 16 -> 32" in ran.out
    assert "batch_size=32" in script.read_text()
    assert script.stat().st_mode & 0o777 == 0o751
    assert [path.name for path in script.parent.iterdir() if path.name.startswith(".train")] == []


def test_apply_goes_through_a_link(skyline: Run, saved: Path, script: Path, tmp_path: Path) -> None:
    real = tmp_path / "real.py"
    script.rename(real)
    script.symlink_to(real)
    assert skyline("apply", "train.py", "batch_size=32").code == 0
    assert script.is_symlink()
    assert "batch_size=32" in real.read_text()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs permissions that bind")
def test_apply_to_a_read_only_script(skyline: Run, saved: Path, script: Path) -> None:
    script.chmod(0o444)
    ran = skyline("apply", "train.py", "batch_size=32")
    assert ran.code == 2
    assert "cannot be written" in ran.err


def test_apply_takes_out_what_is_in_the_code(skyline: Run, saved: Path, script: Path) -> None:
    before = script.read_text()
    after = before.replace("model.parameters())", "model.parameters(), fused=True)")
    assert before != after
    script.write_text(after)
    known = store.load(saved)
    saved.unlink()
    store.save(replace(known, sources=(replace(known.sources[0], text=after),)))
    ran = skyline("apply", "train.py", "--remove", "fused_optimizer", "--diff")
    assert ran.code == 0, ran.err
    assert "-optimizer = torch.optim.Adam(model.parameters(), fused=True)" in ran.out
    assert script.read_text() == after
    listed = skyline("whatif", "train.py")
    assert "in the code already: fused_optimizer=fused" in listed.out
    assert "skyline apply train.py --remove NAME" in listed.out
    ran = skyline("apply", "train.py", "fused_optimizer", "--remove")
    assert ran.code == 0, ran.err
    assert "train.py:3: removed , fused=True" in ran.out
    assert script.read_text() == before


def test_apply_takes_out_only_what_is_there(skyline: Run, saved: Path, script: Path) -> None:
    before = script.read_bytes()
    ran = skyline("apply", "train.py", "--remove", "fused_optimizer")
    assert ran.code == 2
    assert "fused_optimizer was not taken out: fused_optimizer was not found in the code." in ran.err
    assert script.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("amp=bf16", "Write: --remove amp"),
        ("batch_size", "Write another one"),
        ("batch_size=8", "--remove takes names without values"),
        ("ampere", "'ampere'"),
    ],
)
def test_what_is_taken_out_is_named_alone(skyline: Run, saved: Path, name: str, said: str) -> None:
    ran = skyline("apply", "train.py", "--remove", name)
    assert ran.code == 2
    assert said in ran.err


def test_apply_refuses_as_a_whole_and_says_why(skyline: Run, saved: Path, script: Path) -> None:
    before = script.read_bytes()
    ran = skyline("apply", "train.py", "batch_size=32", "sdpa")
    assert ran.code == 2
    assert "sdpa was not applied" in ran.err
    assert script.read_bytes() == before


def test_apply_wants_a_script(skyline: Run, saved: Path) -> None:
    ran = skyline("apply", str(saved), "batch_size=32")
    assert ran.code == 2
    assert "Name the script" in ran.err


def test_diff_of_a_profile_with_itself(skyline: Run, saved: Path) -> None:
    ran = skyline("diff", str(saved), "train.py")
    assert ran.code == 0
    assert "within noise" in ran.out
    answer = json.loads(skyline("diff", str(saved), str(saved), "--json", "-").out)
    assert (answer["schema"], answer["change"]) == ("skyline.diff/1", 0.0)


def test_diff_fails_over_a_limit(skyline: Run, saved: Path, tmp_path: Path) -> None:
    slower = json.loads(gzip.decompress(saved.read_bytes()))
    slower["times"]["steps_ms"] = [step * 1.2 for step in slower["times"]["steps_ms"]]
    other = tmp_path / "slower.json"
    other.write_text(json.dumps(slower))
    assert skyline("diff", str(saved), str(other), "--fail-over", "10%").code == 4
    assert skyline("diff", str(saved), str(other), "--fail-over", "30%").code == 0
    assert skyline("diff", str(other), str(saved), "--fail-over", "10%").code == 0


@pytest.mark.parametrize("form", ["perfetto", "speedscope", "html", "json"])
def test_export(skyline: Run, saved: Path, tmp_path: Path, form: str) -> None:
    ran = skyline("export", "train.py", "--format", form, "-o", "out")
    assert ran.code == 0
    assert ran.out == ""
    size = (tmp_path / "out").stat().st_size
    assert size > 500
    again = skyline("export", "train.py", "--format", form, "-o", "out")
    assert again.code == 2
    assert "--force" in again.err
    assert skyline("export", "train.py", "--format", form, "-o", "out", "--force").code == 0


def test_export_to_a_folder_that_is_not_there(skyline: Run, saved: Path) -> None:
    ran = skyline("export", str(saved), "--format", "json", "-o", "nowhere/out.json")
    assert ran.code == 2
    assert "nowhere/out.json cannot be written: No such file or directory" in ran.err


def test_a_damaged_profile(skyline: Run, saved: Path) -> None:
    saved.write_bytes(saved.read_bytes()[:200])
    ran = skyline("show", str(saved))
    assert ran.code == 2
    assert "is damaged or not a Skyline profile" in ran.err
    assert "Profile the script again" in ran.err


def test_a_file_that_is_no_profile(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "notes.json").write_text('{"hello": 1}')
    ran = skyline("show", "notes.json")
    assert ran.code == 2
    assert "no schema" in ran.err


def test_a_profile_of_another_version(skyline: Run, saved: Path) -> None:
    data = json.loads(gzip.decompress(saved.read_bytes()))
    saved.write_bytes(gzip.compress(json.dumps({**data, "schema": "skyline.capture/99"}).encode()))
    ran = skyline("show", str(saved))
    assert ran.code == 2
    assert "skyline.capture/99" in ran.err
