"""``skyline history`` over commits of a repository whose profiles are made by hand."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skyline.trace import store
from skyline.trace.facts import MachineLoad
from skyline.trace.profile import Profile, SourceFile

Run = Callable[..., Any]
Kept = Callable[..., Path]


def git(*words: str, date: str = "2026-01-01T00:00:00+00:00") -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    environment = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    subprocess.run(["git", *who, *words], check=True, capture_output=True, env=environment)


@pytest.fixture
def keep(skyline: Run, tmp_path: Path, profile: Profile) -> Kept:
    """Saves a profile of the script with this text, whose step takes so many times the ten ms of the hand-made one."""
    path = tmp_path / "train.py"

    def save(text: str, name: str, day: int, factor: float = 1.0, **changes: object) -> Path:
        path.write_text(text)
        times = replace(profile.times, steps_ms=tuple(factor * one for one in profile.times.steps_ms))
        # All that the step takes longer is spent in the line of the forward pass.
        longer_us = (factor - 1) * 10_000 * 12 / 10
        records = tuple(
            replace(record, duration_us=record.duration_us + longer_us)
            if record.name == "aten::linear"
            else record
            for record in profile.trace.records
        )
        made = replace(
            profile,
            id=name,
            created=f"2026-01-{day:02}T12:00:00+00:00",
            script=str(path),
            working_directory=str(tmp_path),
            sources=(SourceFile(str(path), "0" * 64, text),),
            times=times,
            trace=replace(
                profile.trace,
                records=records,
                lines=tuple(replace(line, file=str(path)) for line in profile.trace.lines),
            ),
            **changes,  # type: ignore[arg-type]
        )
        return store.save(made)

    return save


@pytest.fixture
def repository(keep: Kept, profile: Profile) -> str:
    """Two commits, the second one half as slow again, each with a profile of the day after."""
    text = profile.sources[0].text
    git("init", "-q")
    for number, (source, factor) in enumerate(
        ((text, 1.0), (text.replace("model(batch)", "slow(batch)"), 1.5))
    ):
        keep(source, f"a{number}", 3 + 2 * number, factor)
        git("add", "train.py")
        git("commit", "-qm", f"change {number}", date=f"2026-01-{2 + 2 * number:02}T00:00:00+00:00")
    return text


def test_the_commit_that_made_it_slower_and_the_line_that_grew(skyline: Run, repository: str) -> None:
    ran = skyline("history", "--json", "-", "train.py")
    assert ran.code == 0, ran.err
    report = json.loads(ran.out)
    first, second = report["states"]
    assert [first["subject"], second["subject"]] == ["change 0", "change 1"]
    assert [first["changed"], second["changed"]] == [False, False]
    assert first["verdict"] == ""
    assert second["verdict"] == "slower"
    assert second["change"] == pytest.approx(0.5)
    assert report["slower_at"] == ["a1"]
    (grown,) = second["grown"]
    assert grown["text"] == "loss = slow(batch)"
    assert grown["line"] == 5
    page = skyline("history", "train.py").out
    assert "change 1" in page
    assert "+50.0 % per sample" in page
    assert "train.py:5 loss = slow(batch)" in page


@pytest.mark.parametrize("width", [80, 100, 110])
def test_the_table_fits_the_terminal(
    width: int, skyline: Run, repository: str, keep: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(f"{repository}# More.\n", "a2", 7, 1.5)
    git("commit", "-qam", "a subject of many words, as people write them")
    monkeypatch.setenv("COLUMNS", str(width))
    table, _, _ = skyline("history", "train.py").out.partition("Slower")
    assert max(map(len, table.splitlines())) <= width


def test_the_page_for_a_browser_has_charts_with_the_commit_and_the_line(
    skyline: Run, repository: str, keep: Kept, profile: Profile, tmp_path: Path
) -> None:
    ran = skyline("history", "--html", "history.html", "--json", "-", "train.py")
    assert ran.code == 0, ran.err
    page = (tmp_path / "history.html").read_text()
    report = json.loads(ran.out)
    slower = report["states"][1]["commit"][:9]
    assert page.count("<svg viewBox") == 2
    assert "<h3>Step time, ms</h3>" in page
    assert "<h3>Peak memory, " in page
    # The mark, the axis, and the point.
    assert page.count('<text class="limit-label"') == 1
    assert "+50.0 % train.py:5</text>" in page
    assert f">{slower}</text>" in page
    assert f"<title>{slower}: " in page
    assert "loss = slow(batch)" in page
    # Of other batch sizes the time of a sample is drawn.
    keep(f"{profile.sources[0].text}##\n", "b3", 9, 2.0, batch_size=32)
    assert skyline("history", "--html", "history.html", "train.py").code == 0
    assert "<h3>Time per sample, " in (tmp_path / "history.html").read_text()


def test_a_single_state_has_no_chart(skyline: Run, keep: Kept, profile: Profile, tmp_path: Path) -> None:
    keep(profile.sources[0].text, "a0", 1)
    assert skyline("history", "--html", "history.html", "train.py").code == 0
    page = (tmp_path / "history.html").read_text()
    assert "<svg viewBox" not in page
    assert "1 state of the sources" in page


def test_changes_that_are_not_committed_are_marked(
    skyline: Run, repository: str, keep: Kept, tmp_path: Path
) -> None:
    (tmp_path / "layers.py").write_text("one = 1\n")
    git("add", "layers.py")
    git("commit", "-qm", "layers", date="2026-01-06T00:00:00+00:00")
    script = (tmp_path / "train.py").read_text()
    layers = SourceFile(str(tmp_path / "layers.py"), "0" * 64, "two = 2\n")
    path = keep(script, "b2", 7, 1.5)
    known = store.load(path)
    store.save(replace(known, sources=(*known.sources, layers)))
    report = json.loads(skyline("history", "--json", "-", "train.py").out)
    last = report["states"][-1]
    assert last["changed"]
    assert last["subject"] == "change 1"
    assert last["verdict"] == "same"


def test_profiles_that_were_removed_stay_in_the_history(skyline: Run, keep: Kept, profile: Profile) -> None:
    text = profile.sources[0].text
    for number in range(23):
        keep(f"{text}# {number}\n", f"c{number:02}", 1 + number)
    report = json.loads(skyline("history", "--json", "-", "train.py").out)
    assert [one["profiles"] for one in report["states"]] == [[f"c{number:02}"] for number in range(23)]
    assert {one["commit"] for one in report["states"]} == {""}
    assert len(store.saved(Path("train.py"))) == 20


def test_noise_busy_machines_and_other_batch_sizes(skyline: Run, keep: Kept, profile: Profile) -> None:
    text = profile.sources[0].text
    keep(text, "d0", 1)
    keep(f"{text}#\n", "d1", 2, 1.04)
    # Twice the batch in twice the time is no slowdown.
    keep(f"{text}##\n", "d2", 3, 2.0, batch_size=32)
    keep(f"{text}##\n", "d3", 4, 1.0, arguments=("--other",))
    keep(f"{text}###\n", "d4", 5, 2.0, batch_size=32)
    report = json.loads(skyline("history", "--json", "-", "train.py").out)
    assert [one["verdict"] for one in report["states"]] == ["", "same", "same", "same"]
    assert report["others"] == 1


def test_a_state_that_was_profiled_on_a_busy_machine_is_not_judged(
    skyline: Run, keep: Kept, profile: Profile
) -> None:
    text = profile.sources[0].text
    keep(text, "e0", 1)
    keep(f"{text}#\n", "e1", 2, 1.5, load=MachineLoad(1.0, 1.0, 2))
    keep(f"{text}##\n", "e2", 3, 1.5)
    # Of the same state a run in calm counts alone.
    keep(f"{text}##\n", "e3", 4, 4.0, load=MachineLoad(1.0, 1.0, 2))
    report = json.loads(skyline("history", "--json", "-", "train.py").out)
    assert [one["verdict"] for one in report["states"]] == ["", "unsure", "slower"]
    assert report["states"][2]["change"] == pytest.approx(0.5)
    assert "1 change not judged" in skyline("history", "train.py").out


def test_a_script_without_profiles_says_what_to_do(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    ran = skyline("history", "train.py")
    assert ran.code == 2
    assert "skyline profile train.py" in ran.err


def test_a_name_that_is_mistyped_is_not_sent_to_the_profiler(skyline: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    ran = skyline("history", "trian.py")
    assert ran.code == 2
    assert "trian.py does not exist" in ran.err
    assert "Did you mean train.py?" in ran.err
