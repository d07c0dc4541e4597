"""The stopwatch that Skyline is compared with, and the turns that runs take."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.capture.turns import in_turns

TRAINING = """
import torch
model = torch.nn.Linear(4, 1)
{optimizer}
for _ in range({iterations}):
    model(torch.ones(2, 4)).sum().backward()
    {step}
"""


def training(folder: Path, iterations: int, *, by_hand: bool = False) -> Path:
    script = folder / "train.py"
    optimizer = "" if by_hand else "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
    step = "pass" if by_hand else "optimizer.step()"
    script.write_text(
        TRAINING.format(iterations=iterations, optimizer=optimizer, step=step), encoding="utf-8"
    )
    return script


@pytest.mark.capture
@pytest.mark.parametrize("by_hand", [pytest.param(False, marks=pytest.mark.long), True])
def test_runs_take_turns_and_give_ratios(
    tmp_path: Path, by_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import interleaved
    from interleaved import HandTimed, TimedScript

    monkeypatch.setattr(interleaved, "TURN_S", 0.1)

    subject = TimedScript(training(tmp_path, 10**9, by_hand=by_hand))
    with HandTimed(subject) as base, HandTimed(subject) as other, HandTimed(subject) as again:
        [one] = in_turns(base, [other], again, rounds=1)
    assert one.again is not None
    [turn] = one.variants
    assert turn is not None
    assert one.base.typical_ms > 0
    assert one.null == one.again.typical_ms / one.base.typical_ms
    assert one.ratio() == pytest.approx(2 * turn.typical_ms / (one.base.typical_ms + one.again.typical_ms))


@pytest.mark.capture
def test_a_script_that_ends_too_soon_is_told(tmp_path: Path) -> None:
    from interleaved import HandTimed, TimedScript

    with pytest.raises(RuntimeError, match="did not get to 4 steps"):
        HandTimed(TimedScript(training(tmp_path, 2)))
