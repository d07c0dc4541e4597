"""Files that are written whole or left as they were."""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from skyline.cli.apply import write_edits
from skyline.cli.streams import write_whole as write_for_command
from skyline.errors import UsageError
from skyline.source.text import SourceSpan, SourceText
from skyline.whole_file import all_or_none, write_whole

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


def test_files_that_are_written_together_are_all_written_or_none(tmp_path: Path) -> None:
    small, large = tmp_path / "config.py", tmp_path / "train.py"
    small.write_text("BATCH = 32\n")
    large.write_text(SCRIPT)

    def changes(addition: bytes) -> list[tuple[Callable[[], None], Callable[[], None]]]:
        before = {path: path.read_bytes() for path in (small, large)}
        return [
            (partial(write_whole, path, data + addition), partial(write_whole, path, data))
            for path, data in before.items()
        ]

    with full_disk(1024), pytest.raises(OSError, match="File too large"):
        all_or_none(changes(b"# more\n"))
    assert (small.read_text(), large.read_text()) == ("BATCH = 32\n", SCRIPT)
    all_or_none(changes(b"# more\n"))
    assert small.read_text() == "BATCH = 32\n# more\n"
    assert large.read_text() == SCRIPT + "# more\n"


def test_edits_of_a_command_are_all_written_or_none(tmp_path: Path) -> None:
    small, large = tmp_path / "config.py", tmp_path / "train.py"
    small.write_text("BATCH = 32\n")
    large.write_text(SCRIPT)
    texts = [SourceText.read(path) for path in (small, large)]
    edits = tuple(text.edit(SourceSpan(text.path, 1, 0, 1, 5), "SIZES") for text in texts)
    with full_disk(1024), pytest.raises(UsageError, match="File too large"):
        write_edits(edits)
    assert (small.read_text(), large.read_text()) == ("BATCH = 32\n", SCRIPT)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a directory"):
        write_for_command(tmp_path, b"")
