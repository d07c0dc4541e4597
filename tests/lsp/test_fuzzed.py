"""A few hundred random, reordered, doubled and malformed messages; the long run is a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_the_server_keeps_its_head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from server_fuzzer import fuzz

    outcome = fuzz(2, 500, tmp_path)
    assert outcome.messages >= 500
    assert outcome.answers["answered"] > 50
    assert outcome.answers["refused"] > 20
