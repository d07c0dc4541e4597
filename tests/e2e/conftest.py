"""A real profile, recorded once: a linear model on a processor, at batch size 16, with a curve."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.trace import store
from skyline.trace.profile import Profile

RECORDED = Path(__file__).resolve().parents[1] / "data" / "linear.profile.json.gz"


@pytest.fixture
def recorded_profile() -> Profile:
    return store.load(RECORDED)
