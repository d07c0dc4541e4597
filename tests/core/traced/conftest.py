"""The project's own small recordings, and changes of the one that was written by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skyline.trace.kineto.reader import read
from skyline.whatif.recorded import recorded

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="session")
def gpu():
    """Five steps of 1 ms; see ``tests/data/make_traces.py``."""
    return recorded(read(DATA / "tiny_gpu.trace.json"))


@pytest.fixture(scope="session")
def cpu():
    """Steps of a small model, recorded without a GPU."""
    return recorded(read(DATA / "tiny_cpu.trace.json.gz"))


@pytest.fixture
def changed(tmp_path):
    """The recording by hand with its events changed, left out where they become None, and others added."""

    def made(change, events=(), **further):
        written = json.loads((DATA / "tiny_gpu.trace.json").read_text(encoding="utf-8"))
        kept = [one for one in map(change, written["traceEvents"]) if one is not None] + [*events]
        path = tmp_path / "changed.json"
        path.write_text(json.dumps({**written, **further, "traceEvents": kept}), encoding="utf-8")
        return recorded(read(path))

    return made
