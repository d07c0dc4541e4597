"""Files that are written whole or left as they were."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skyline.cli.streams import write_whole as write_for_command
from skyline.errors import UsageError
from skyline.source.text import SourceText
from skyline.whole_file import write_whole

SCRIPT = "BATCH = 64  # " + "x" * 4000 + "\n"


@contextmanager
def full_disk(left_bytes: int) -> Iterator[None]:
    """No file can grow beyond a size: the system refuses the rest of a write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (left_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_source_that_no_longer_fits_stays_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    source = SourceText.read(script)
    longer = SourceText.of(str(script), source.text + "# more\n")
    with full_disk(1024), pytest.raises(UsageError, match="cannot be written: File too large"):
        longer.write_bytes()
    assert script.read_text() == SCRIPT
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_command_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(SCRIPT)
    with full_disk(1024), pytest.raises(UsageError, match="File too large"):
        write_for_command(page, b"y" * 5000)
    assert page.read_text() == SCRIPT


def test_permissions_and_links_are_kept(tmp_path: Path) -> None:
    script, link = tmp_path / "train.py", tmp_path / "link.py"
    script.write_text(SCRIPT)
    script.chmod(0o750)
    link.symlink_to(script.name)
    write_whole(link, b"new\n")
    assert link.is_symlink()
    assert script.read_bytes() == b"new\n"
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_a_file_that_cannot_be_replaced_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)

    def busy(*_: object) -> None:
        raise OSError(16, "Device or resource busy")

    # As for a single file that a container mounts.
    monkeypatch.setattr(os, "replace", busy)
    write_whole(script, b"new\n")
    assert script.read_bytes() == b"new\n"
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        write_for_command(tmp_path, b"")
