from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from skyline_lsp.file_watch import FileWatch

WAIT_S = 10


@pytest.fixture
def saved() -> queue.Queue[str]:
    return queue.Queue()


@pytest.fixture
def watch(saved: queue.Queue[str]) -> Iterator[FileWatch]:
    watching = FileWatch(saved.put)
    yield watching
    watching.close()


@pytest.fixture
def script(tmp_path: Path, watch: FileWatch) -> Path:
    path = tmp_path.resolve() / "train.py"
    path.write_text("x = 1\n")
    watch.add([str(path)])
    return path


def test_a_save_in_place(script: Path, saved: queue.Queue[str]) -> None:
    script.write_text("x = 2\n")
    assert saved.get(timeout=WAIT_S) == str(script)


def test_a_save_that_replaces_the_file(script: Path, saved: queue.Queue[str]) -> None:
    temporary = script.with_name(".train.py.tmp")
    temporary.write_text("x = 2\n")
    os.replace(temporary, script)
    assert saved.get(timeout=WAIT_S) == str(script)


def test_a_second_save_that_replaces_the_file_is_seen_too(script: Path, saved: queue.Queue[str]) -> None:
    for number in (2, 3):
        temporary = script.with_name(f".train.py.{number}")
        temporary.write_text(f"x = {number}\n")
        os.replace(temporary, script)
        assert saved.get(timeout=WAIT_S) == str(script)
        while not saved.empty():
            saved.get()


def test_only_watched_files_are_told_of(tmp_path: Path, script: Path, saved: queue.Queue[str]) -> None:
    (tmp_path / "other.py").write_text("y = 1\n")
    script.write_text("x = 2\n")
    assert saved.get(timeout=WAIT_S) == str(script)
    assert {saved.get() for _ in range(saved.qsize())} <= {str(script)}


def test_reading_is_no_save(script: Path, saved: queue.Queue[str]) -> None:
    script.read_text()
    other = script.with_name("later.py")
    other.write_text("")
    with pytest.raises(queue.Empty):
        saved.get(timeout=0.3)


def test_a_folder_that_is_gone_is_left_out(watch: FileWatch, tmp_path: Path) -> None:
    watch.add([str(tmp_path / "gone" / "train.py")])
