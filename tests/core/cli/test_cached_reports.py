from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.analysis import analyse
from skyline.ledger.ledger import (
    DIRECTORY_VARIABLE,
    Conditions,
    Ledger,
    LedgerEntry,
    Measurement,
    Predicted,
    VerificationStatus,
    ledger_path,
)
from skyline.report import report_cache
from skyline.trace import store

Run = Callable[..., Any]

TRAINING = """\
import sys
import torch

model = torch.nn.Linear(32, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch_size = 8
for step in range(int(sys.argv[2])):
    x = torch.randn(batch_size, 32)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def analyses(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The identifiers of the profiles that were analysed."""
    made: list[str] = []
    real = analyse.analyse

    def counted(profile: Any) -> Any:
        made.append(profile.id)
        return real(profile)

    monkeypatch.setattr(analyse, "analyse", counted)
    return made


def _asked(skyline: Run, *words: str) -> tuple[str, str]:
    ran = skyline(*words)
    assert ran.code == 0, ran.err
    return ran.out, ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "--json", "-"),
        ("show", "--format", "html"),
        ("show", "--line", "5"),
        ("whatif",),
        ("whatif", "--json", "-"),
    ],
)
def test_a_profile_is_analysed_once(
    skyline: Run, saved: Path, analyses: list[str], words: tuple[str, ...]
) -> None:
    command, *options = words
    first = _asked(skyline, command, str(saved), *options)
    assert len(analyses) == 1
    assert _asked(skyline, command, str(saved), *options) == first
    assert len(analyses) == 1


def test_each_question_has_its_own_answer(skyline: Run, saved: Path, analyses: list[str]) -> None:
    questions = ["amp"], ["amp", "num_workers=2"], ["num_workers=2"], ["num_workers=4"], []
    first = [_asked(skyline, "whatif", str(saved), *words) for words in questions]
    assert len(analyses) == len(set(first)) == len(questions)
    assert [_asked(skyline, "whatif", str(saved), *words) for words in questions] == first
    assert len(analyses) == len(questions)


def test_the_best_combination_is_searched_again(skyline: Run, saved: Path, analyses: list[str]) -> None:
    assert _asked(skyline, "whatif", str(saved), "--best") == _asked(skyline, "whatif", str(saved), "--best")
    assert len(analyses) == 2


def test_a_changed_source_is_told_although_the_report_is_cached(
    skyline: Run, saved: Path, script: Path
) -> None:
    text = script.read_text()
    assert _asked(skyline, "show", str(saved))[1] == ""
    script.write_text(text + "# more\n")
    for _ in range(2):
        assert "changed since this profile was made: train.py" in _asked(skyline, "show", str(saved))[1]
    script.write_text(text)
    assert _asked(skyline, "show", str(saved))[1] == ""


def test_another_profile_in_the_same_file_is_analysed(skyline: Run, saved: Path, analyses: list[str]) -> None:
    before = _asked(skyline, "show", str(saved))
    saved.write_bytes(saved.read_bytes())
    assert _asked(skyline, "show", str(saved)) == before
    saved.write_bytes(store._packed(replace(store.load(saved), arguments=("--other",))))
    assert _asked(skyline, "show", str(saved)) != before
    assert len(analyses) == 2


def test_a_copy_in_another_folder_has_its_own_paths(skyline: Run, saved: Path, tmp_path: Path) -> None:
    here = json.loads(_asked(skyline, "show", str(saved), "--json", "-")[0])
    copy = tmp_path / "other" / ".skyline" / saved.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(saved.read_bytes())
    there = json.loads(_asked(skyline, "show", str(copy), "--json", "-")[0])
    assert Path(here["script"]).parent == tmp_path
    assert Path(there["script"]).parent == tmp_path / "other"


def test_other_code_of_skyline_analyses_again(
    skyline: Run, saved: Path, analyses: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _asked(skyline, "show", str(saved))
    real = list(report_cache._code())
    assert any("report_cache.py" in one for one in real)
    monkeypatch.setattr(report_cache, "_code", lambda: iter([*real[1:], f"{real[0]}1"]))
    _asked(skyline, "show", str(saved))
    assert len(analyses) == 2


def test_what_another_package_adds_is_never_answered_from_the_cache(
    skyline: Run, saved: Path, analyses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    info = tmp_path / "site" / "more_whatifs-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: more-whatifs\n")
    (info / "entry_points.txt").write_text("[skyline.gpus]\nmore = os:listdir\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for _ in range(2):
        skyline("show", str(saved), "--json", "-")
    assert len(analyses) == 2


def test_a_verification_since_then_is_in_the_answers(
    skyline: Run, saved: Path, analyses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "data"))
    before = json.loads(_asked(skyline, "whatif", str(saved), "--json", "-")[0])
    Ledger().write(
        LedgerEntry(
            id="one",
            created="2026-01-02T03:04:05+00:00",
            changed="2026-01-02T03:04:05+00:00",
            status=VerificationStatus.MEASURED,
            script=str(saved),
            sources_digest="d",
            whatif="num_workers",
            question="num_workers=2",
            profile_id="a1",
            skyline="0.1.0",
            machine=Conditions.of(store.load(saved)),
            predicted=Predicted(10.0, 9.0, 8.5, 9.5, 1.1, 1e6, 1e6, "exact", False, "d"),
            measurement=Measurement(0.9, 0.89, 0.91, 1.0, 0.99, 1.01, 8, 10.0),
            error=0.01,
            held=True,
        )
    )
    after = json.loads(_asked(skyline, "whatif", str(saved), "--json", "-")[0])
    assert not before.get("ledger")
    assert [one["whatif"] for one in after["ledger"]] == ["num_workers"]
    assert len(analyses) == 2


def test_an_unreadable_ledger_is_said_each_time(
    skyline: Run, saved: Path, analyses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "data"))
    _asked(skyline, "whatif", str(saved))
    ledger_path().parent.mkdir(parents=True, exist_ok=True)
    ledger_path().write_bytes(b"no database")
    for _ in range(2):
        assert ledger_path().name in skyline("whatif", str(saved)).err
    assert len(analyses) == 3


@pytest.mark.parametrize("content", [b"", b"{}", b'{"depends_on": {}, "cached": 3}', b"\xff"])
def test_a_damaged_report_is_made_again(
    skyline: Run, saved: Path, analyses: list[str], tmp_path: Path, content: bytes
) -> None:
    first = _asked(skyline, "show", str(saved))
    (report,) = (tmp_path / "cache" / "skyline" / "reports").iterdir()
    report.write_bytes(content)
    assert _asked(skyline, "show", str(saved)) == first
    assert len(analyses) == 2
    assert json.loads(report.read_bytes())


def test_a_cache_that_cannot_be_written_costs_nothing(skyline: Run, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in its place")
    assert _asked(skyline, "show", str(saved)) == _asked(skyline, "show", str(saved))


def test_the_newest_reports_remain(
    skyline: Run, saved: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(report_cache, "_MOST_KEPT", 3)
    for workers in range(1, 6):
        _asked(skyline, "whatif", str(saved), f"num_workers={workers}")
    assert len(list((tmp_path / "cache" / "skyline" / "reports").iterdir())) == 3


@pytest.mark.capture
def test_a_profile_just_made_is_shown_from_the_cache(
    skyline: Run, analyses: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(tmp_path / "data"))
    (tmp_path / "train.py").write_text(TRAINING)
    options = ("--steps", "4", "--warmup", "2", "--quiet")
    profiled = _asked(skyline, "profile", *options, "train.py", "--steps", "400")[0]
    assert len(analyses) == 1
    commands = (
        ("show", "train.py"),
        ("show", "train.py", "--json", "-"),
        ("whatif", "train.py", "--json", "-"),
    )
    shown = [_asked(skyline, *words)[0] for words in commands]
    assert shown[0] == profiled
    assert len(analyses) == 1
    for report in (tmp_path / "cache" / "skyline" / "reports").iterdir():
        report.unlink()
    # The profile in the file gives the same figures to the last digit.
    assert [_asked(skyline, *words)[0] for words in commands] == shown
    assert len(analyses) == 3
