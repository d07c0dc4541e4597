from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skyline.calibrate.case import Case
from skyline.calibrate.machine import CalibratedDevice
from skyline.calibrate.store import CaseTime, append

Run = Callable[..., Any]
MACHINE = CalibratedDevice("Example CPU", "cpu", 4, 2**34, 3000, 384.0, 2**25, "2.13.0")
ROW = CaseTime(Case("mm", (("k", 512), ("m", 512), ("n", 512))), 400.0)


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKYLINE_DATA_DIR", str(tmp_path / "data"))


def test_a_file_from_elsewhere_becomes_a_device(skyline: Run, tmp_path: Path) -> None:
    append(tmp_path / "there.csv", MACHINE, [ROW])
    added = skyline("calibrate", "--add", str(tmp_path / "there.csv"))
    assert added.code == 0
    assert "1 operators added" in added.out
    assert "--gpu example-4t" in added.out
    assert "0 operators added" in skyline("calibrate", "--add", str(tmp_path / "there.csv")).out
    assert "example-4t: Example CPU, 1 operators" in skyline("calibrate", "--list").out
    assert skyline("calibrate", "--forget", "example-4t").code == 0
    assert "Nothing was measured" in skyline("calibrate", "--list").out


def test_what_is_wrong_is_named(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("op,gpu\n")
    for arguments, said in (
        (("--add", "wrong.csv"), "not a file of measured operators"),
        (("--add", "missing.csv"), "cannot be read"),
        (("--forget", "z9"), "there are no measurements of 'z9'"),
        (("--minutes", "0"), "between 0 and 600"),
        (("--minutes", "soon"), "invalid"),
    ):
        ran = skyline("calibrate", *arguments)
        assert ran.code == 2
        assert said in ran.err


@pytest.mark.capture
def test_measuring_exporting_and_predicting(skyline: Run, tmp_path: Path) -> None:
    early = skyline("calibrate", "--device", "cpu", "--export", "mine.csv")
    assert early.code == 2
    assert "skyline calibrate" in early.err
    ran = skyline("calibrate", "--device", "cpu", "--minutes", "0.04", "--json", "done.json", "-q")
    assert ran.code == 0, ran.err
    assert "operators measured now" in ran.out
    outcome = json.loads((tmp_path / "done.json").read_text())
    assert outcome["measured"] > 0
    assert Path(outcome["path"]).exists()
    assert skyline("calibrate", "--device", "cpu", "--export", "mine.csv").code == 0
    assert (tmp_path / "mine.csv").read_bytes() == Path(outcome["path"]).read_bytes()


@pytest.mark.capture
def test_a_what_if_on_the_processor_is_better_measured(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('never run')\n")
    ran = skyline("whatif", "--gpu", "cpu", "train.py", "amp=bf16")
    assert ran.code == 2
    assert "Omit --gpu" in ran.err
