"""A pytest plugin for `mutation.py`. Coverage records the tests that reach a line; a file records their times."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest

_seconds: dict[str, float] = {}


def _forget() -> None:
    """Empty the caches of functions, so that a line behind a cache counts for every test that needs it."""
    for name in [name for name in sys.modules if name.partition(".")[0].startswith("skyline")]:
        for value in vars(sys.modules[name]).values():
            if callable(clear := getattr(value, "cache_clear", None)):
                clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Count fixtures for the test that they are made for."""
    measuring = coverage.Coverage.current()
    assert measuring is not None
    test = item.nodeid.partition("[")[0]
    _forget()
    measuring.switch_context(test)
    start = time.process_time()
    yield
    _seconds[test] = _seconds.get(test, 0.0) + time.process_time() - start
    measuring.switch_context("")


def pytest_sessionfinish() -> None:
    Path(os.environ["MUTATION_SECONDS"]).write_text(json.dumps(_seconds), encoding="utf-8")
