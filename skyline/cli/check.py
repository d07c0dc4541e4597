"""One line of ``skyline doctor``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; ``remedy`` says what to do where it is not well."""

    name: str
    verdict: Verdict
    finding: str
    remedy: str = ""
