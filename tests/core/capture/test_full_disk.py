"""A full disk: the message names the disk, and the measurements are shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.errors import CaptureImpossible
from skyline.trace.profile import Profile

pytestmark = pytest.mark.capture

Write = Callable[..., Path]
Run = Callable[..., Profile]


def test_a_recording_that_does_not_fit_is_not_blamed_on_the_script(script: Write, run: Run) -> None:
    pytest.importorskip("resource")
    path = script(
        """
        import resource
        import torch
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        # No file may grow beyond this, as on a disk with no more room.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        while True:
            try:
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            except Exception:
                pass
        """
    )
    with pytest.raises(CaptureImpossible, match="cannot be written to the temporary folder") as raised:
        run(path)
    assert "TMPDIR" in raised.value.hint
