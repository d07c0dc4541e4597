"""Runs under ``skyline watch`` that import PyTorch as fast as can be."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def brief(brief_start: None) -> None:
    """One thread, and the folder on ``PYTHONPATH`` with which interpreters import faster."""
