"""Where data of commands goes: files in one step, and what is no file as it is."""

from __future__ import annotations

import os
import stat
import sys
from threading import Thread

import pytest

from skyline.cli.streams import write_data
from skyline.errors import UsageError


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes in the file system")
def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_data(str(pipe), b"all of it", overwrite=False)
    reader.join()
    assert read == [b"all of it"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_device_that_takes_nothing_says_so():
    with pytest.raises(UsageError, match="No space left on device"):
        write_data("/dev/full", b"all of it")


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path):
    target = tmp_path / "report.json"
    target.write_bytes(b"before")
    target.chmod(0o640)
    with pytest.raises(UsageError, match="exists already"):
        write_data(str(target), b"after", overwrite=False)
    write_data(str(target), b"after")
    assert target.read_bytes() == b"after"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
