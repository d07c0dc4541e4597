"""Files are read only where they are regular, and only so much of them."""

from __future__ import annotations

import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.bounded_read import head_unpacked, open_regular, read_bounded, read_unpacked
from skyline.errors import UsageError
from skyline.settings.pyproject import project_settings
from skyline.source.checkout import checkout_at
from skyline.source.text import SourceText

READS: tuple[Callable[[Path], object], ...] = (
    open_regular,
    lambda path: read_bounded(path, 10),
    lambda path: read_unpacked(path, 10),
    lambda path: head_unpacked(path, 10),
)


@pytest.mark.parametrize("read", READS)
def test_what_is_no_regular_file(tmp_path: Path, read: Callable[[Path], object], monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind("socket")
    for name, words in (("pipe", "a named pipe"), ("socket", "a socket"), ("/dev/zero", "a device")):
        with pytest.raises(OSError, match=words):
            read(Path(name))
    listening.close()
    with pytest.raises(IsADirectoryError):
        read(tmp_path)
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing")
    with pytest.raises(OSError, match="null"):
        read(Path("a\0b"))


def test_sizes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert read_bounded(path, 10) == read_unpacked(path, 10) == b"0123456789"
    assert head_unpacked(path, 3) == b"012"
    for read in (read_bounded, read_unpacked):
        with pytest.raises(OSError, match="larger than"):
            read(path, 9)
    packed = gzip.compress(b"01234") + gzip.compress(b"56789")
    path.write_bytes(packed)
    assert read_unpacked(path, 10) == b"0123456789"
    with pytest.raises(OSError, match="larger than"):
        read_unpacked(path, 9)
    for damaged in (packed[:-3], packed[:12] + b"xxx" + packed[15:]):
        path.write_bytes(damaged)
        with pytest.raises(gzip.BadGzipFile):
            read_unpacked(path, 10)


def test_pipes_in_a_workspace_hold_up_nothing(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "model.py", ".git"):
        os.mkfifo(tmp_path / name)
    found = project_settings(tmp_path)
    assert found is not None
    assert "a named pipe" in found.problems[0]
    with pytest.raises(UsageError, match="a named pipe"):
        SourceText.read(tmp_path / "model.py")
    assert checkout_at(str(tmp_path / "train.py")).branch == ""


def test_a_git_folder_of_pipes(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("HEAD", "index"):
        os.mkfifo(tmp_path / ".git" / name)
    assert str(checkout_at(str(tmp_path / "train.py"))) == "no git branch"
