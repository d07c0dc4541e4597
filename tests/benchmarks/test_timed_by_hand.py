"""The stopwatch that Skyline is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range({iterations}):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
open("finished.txt", "w").write("yes")
"""


@pytest.mark.capture
def test_a_script_is_timed_and_ended(tmp_path: Path) -> None:
    from timed_by_hand import median_step_ms

    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(iterations=10**9), encoding="utf-8")
    assert median_step_ms(script, 10) > 0


@pytest.mark.capture
def test_too_few_iterations_are_an_error(tmp_path: Path) -> None:
    from timed_by_hand import median_step_ms

    script = tmp_path / "train.py"
    script.write_text(TRAINING.format(iterations=6), encoding="utf-8")
    with pytest.raises(RuntimeError, match="ended after 1 timed iterations of 10"):
        median_step_ms(script, 10)
    assert not (tmp_path / "finished.txt").exists()


@pytest.mark.capture
def test_the_scripts_own_failure_is_shown(tmp_path: Path) -> None:
    from timed_by_hand import median_step_ms

    script = tmp_path / "train.py"
    script.write_text("raise SystemError('of the script')", encoding="utf-8")
    with pytest.raises(RuntimeError, match="of the script"):
        median_step_ms(script, 10)
