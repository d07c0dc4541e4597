"""The folder of a run, filled by a hostile script, is read and removed without harm."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.downloads import Downloads
from skyline.capture.recording import take_recording
from skyline.capture.redactor import Redactor
from skyline.capture.scratch import make_scratch, remove_tree
from skyline.capture.side_effects import last_words, read_protection, read_side_effects
from skyline.errors import CaptureImpossible
from skyline.trace.record import Trace

NOBODY = 65534

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")


def as_nobody(action: Callable[[], None]) -> int:
    """The exit status of a process without privileges, to which modes of files mean something."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            action()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_link_in_a_folder_without_rights_leads_nowhere() -> None:
    """The standard library's removal changes the mode of the file that the link names."""

    def action() -> None:
        with tempfile.TemporaryDirectory() as place:
            kept = Path(place, "kept.txt")
            kept.write_text("mine")
            kept.chmod(0o400)
            scratch = Path(place, "scratch")
            (scratch / "locked" / "inner").mkdir(parents=True)
            (scratch / "locked" / "link").symlink_to(kept)
            (scratch / "locked" / "folder").symlink_to(place)
            (scratch / "locked" / "inner").chmod(0)
            (scratch / "locked").chmod(0o500)
            scratch.chmod(0o500)
            remove_tree(str(scratch))
            assert not scratch.exists()
            assert kept.read_text() == "mine"
            assert kept.stat().st_mode & 0o777 == 0o400

    assert as_nobody(action) == 0


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a").write_text("")
    (tmp_path / "scratch").symlink_to(tmp_path / "kept")
    remove_tree(str(tmp_path / "scratch"))
    assert (tmp_path / "kept" / "a").exists()


def test_folders_within_folders(tmp_path: Path) -> None:
    top = tmp_path / "scratch"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("deeper", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT, dir_fd=folder))
        inner = os.open("deeper", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    remove_tree(str(top))
    assert not top.exists()


def test_the_folder_goes_with_its_owner() -> None:
    scratch = make_scratch()
    path = Path(scratch.name)
    assert path.stat().st_mode & 0o777 == 0o700
    del scratch
    assert not path.exists()


def test_pipes_in_place_of_what_is_read(tmp_path: Path) -> None:
    """Opening a pipe for reading waits for a writer that never comes."""
    for name in ("effects.jsonl", "fetched.jsonl", "protection.json", "last-words", "recording.json"):
        os.mkfifo(tmp_path / name)
    assert read_side_effects(tmp_path, Redactor()) == ()
    assert read_protection(tmp_path) is None
    assert last_words(tmp_path) == ""
    Downloads(tmp_path, tmp_path).keep(tuple)
    with pytest.raises(CaptureImpossible, match="a named pipe"):
        take_recording(tmp_path / "recording.json", Trace)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"pid":' + b"[" * 100_000, b"\xff" * 100, b"{}\n" * 100]
)
def test_rows_that_no_sandbox_writes(tmp_path: Path, content: bytes) -> None:
    for name in ("effects.jsonl", "fetched.jsonl", "protection.json", "last-words", "recording.json"):
        (tmp_path / name).write_bytes(content)
    assert read_side_effects(tmp_path, Redactor()) == ()
    assert read_protection(tmp_path) is None
    last_words(tmp_path)
    Downloads(tmp_path, tmp_path).keep(tuple)
    with pytest.raises(CaptureImpossible):
        take_recording(tmp_path / "recording.json", Trace)


def test_files_without_end(tmp_path: Path) -> None:
    """The part that is read stays small; the rows at the start are kept."""
    row = b'{"pid":1,"kind":"file","target":"a","outcome":"redirected"}\n'
    for name in ("effects.jsonl", "protection.json", "last-words", "recording.json"):
        path = tmp_path / name
        path.write_bytes(row)
        os.truncate(path, 1 << 40)
    assert [effect.target for effect in read_side_effects(tmp_path, Redactor())] == ["a"]
    assert read_protection(tmp_path) is None
    assert len(last_words(tmp_path)) < 1 << 20
    with pytest.raises(CaptureImpossible, match="larger than 1024 MB"):
        take_recording(tmp_path / "recording.json", Trace)
