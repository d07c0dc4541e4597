"""The first finding of a profile of a GPU: the cause that delays the step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.trace.profile import Profile

pytestmark = [pytest.mark.capture, pytest.mark.xdist_group("gpu")]


@pytest.mark.parametrize(
    ("bound_by", "kernel_us", "code"),
    [("host", 2, "SKY201"), ("device", 500, "SKY302"), ("loader", 100, "SKY101")],
)
def test_the_first_finding_names_what_bounds_the_step(
    bound_by: str, kernel_us: float, code: str, scripts: Path, profiled: Callable[..., Profile]
) -> None:
    analysis = analyse(profiled(scripts / "bound.py", bound_by, kernel_us=kernel_us))
    assert analysis.findings[0].code == code
