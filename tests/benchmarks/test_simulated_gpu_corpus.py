"""Public scripts on the simulated GPU: fetched, run unmodified, and checked like recordings of a real GPU."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.capture, pytest.mark.long, pytest.mark.timeout(600)]

SCRIPTS = ("mnist", "vae", "siamese", "gat", "word_transformer", "nanogpt")


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_recording_of_a_public_script_holds_what_it_must(name: str, gpu_python: Path) -> None:
    from corpus_script import read_corpus
    from simulated_gpu_corpus import Places, looked_at

    script = next(script for script in read_corpus() if script.name == name)
    row = looked_at(script, Places(Path(tempfile.gettempdir(), "skyline-corpus"), None, gpu_python))
    if row.not_had:
        pytest.skip(row.not_run)
    assert not row.not_run, "each of these runs on the simulated GPU"
    assert row.misses == ()
