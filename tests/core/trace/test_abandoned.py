"""A later save removes the files left by a process that was killed while it saved."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from skyline.trace import store
from skyline.trace.profile import Profile


def test_partial_files_go_once_nobody_can_be_writing_them(tmp_path: Path, profile: Profile) -> None:
    folder = tmp_path / store.FOLDER
    folder.mkdir()
    old = folder / f".train-00000000{store.SUFFIX}.4711.part"
    new = folder / f".train-11111111{store.SUFFIX}.4712.part"
    other = folder / "notes.part"
    for path in (old, new, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, 0))
    store.save(replace(profile, script=str(tmp_path / "train.py")))
    assert not old.exists()
    assert new.exists()
    assert other.exists()
