"""A cloned folder whose saved profiles are made to use up memory or to hold up whoever opens them."""

from __future__ import annotations

import gzip
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.report import protocol
from skyline.trace import store

pytestmark = [
    pytest.mark.fresh,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel says how much memory was used"),
]

MB = 1 << 20


def bomb(path: Path) -> None:
    """1.3 GB of a profile, in 6 MB of a file."""
    begin = gzip.compress(b'{"schema":"skyline.capture/2","notes":["', 1)
    # Parts of a file that are packed by themselves are unpacked one after another.
    path.write_bytes(begin + 20 * gzip.compress(b" " * (64 * MB), 1))


def pipe(path: Path) -> None:
    os.mkfifo(path)


def remarks(path: Path) -> None:
    """Far more values than a run gives, in fewer bytes than the limit."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'{"schema":"skyline.capture/2","notes":[""' + b',""' * 26_000_000 + b"]}")


def nested(path: Path) -> None:
    path.write_bytes(b'{"schema":' + b"[" * 100_000)


@pytest.mark.parametrize("make", [bomb, pipe, remarks, nested], ids=lambda make: make.__name__)
async def test_a_session_goes_on(
    start_editor, project: Path, save: Callable[..., Path], make: Callable[[Path], None]
) -> None:
    """The server answers, takes less than 1 GB, and shows the next profile that is whole."""
    (project / store.FOLDER).mkdir()
    make(project / store.FOLDER / "train-00000000.profile.json.gz")
    editor = await start_editor(options={"trusted": False})
    train = editor.open(project / "train.py")
    assert await editor.ask(protocol.PROFILE, uri=train) is None
    await editor.lenses(train)
    save(project)
    later = max(project.glob(".skyline/*.profile.json.gz"), key=lambda path: path.lstat().st_mtime)
    os.utime(later, (2e9, 2e9))
    await editor.next_change(lambda change: change["profileId"])
    status = Path(f"/proc/{editor.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+)", status)
    assert found is not None
    assert int(found[1]) / 1024 < 1000
