"""Taking a change back, and the file that keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.tune.trials import KeptTrials, TuneState, TuneTrial, encoded, load_state
from skyline.tune.undo import encoded_undo, load_undo

BEFORE = "\ufeffbatch_size = 16\r\nname = 'é'\r\n".encode()


def test_the_bytes_before_are_kept_whatever_they_are(tmp_path: Path) -> None:
    script, kept = tmp_path / "train.py", tmp_path / "undo.json"
    script.write_bytes(b"batch_size = 32\r\n")
    kept.write_bytes(encoded_undo({str(script): BEFORE}))
    (one,) = load_undo(kept)
    one.check()
    assert one.before == BEFORE
    script.write_bytes(b"batch_size = 64\r\n")
    with pytest.raises(UsageError, match="it is not restored"):
        one.check()
    script.unlink()
    with pytest.raises(UsageError, match="it is not restored"):
        one.check()


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[", b"\xff", b'{"schema": "skyline.tune-state/9", "profile_id": ""}']
)
def test_a_damaged_file_is_no_state(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        load_undo(path)
    with pytest.raises(UsageError) as raised:
        load_state(path)
    assert "Omit --resume" in raised.value.hint


def test_a_missing_file_is_an_empty_state(tmp_path: Path) -> None:
    assert load_state(tmp_path / "none.json") is None
    path = tmp_path / "state.json"
    path.write_bytes(encoded(TuneState("a1")))
    assert load_state(path) == TuneState("a1")


def test_a_later_search_of_the_same_profile_goes_on(tmp_path: Path) -> None:
    saved, trial = tmp_path / "train-a1.profile.json.gz", TuneTrial(("num_workers=2",), Interval.exact(1.1))
    assert not KeptTrials.of("a1", saved, resume=False).add(trial)
    assert KeptTrials.of("a1", saved, resume=True).state.trials == (trial,)
    assert not KeptTrials.of("b2", saved, resume=True).state.trials
    assert not KeptTrials.of("a1", saved, resume=False).state.trials
    assert not KeptTrials.of("a1", None, resume=True).state.trials


def test_what_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    kept = KeptTrials.of("a1", tmp_path / "gone" / "train-a1.profile.json.gz", resume=False)
    trial = TuneTrial(("num_workers=2",), Interval.exact(1.1))
    assert "cannot be written" in kept.add(trial)
    assert not kept.add(trial)
    assert kept.state.trials == (trial, trial)
