"""Numbers in the calls of a training loop, one of which may be its batch size."""

from __future__ import annotations

import pytest

from skyline.source.loop_literals import loop_literals
from skyline.source.text import SourceText

STEP = "    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("x = data.sample(128)", [("sample", 128)]),
        ("x = draw(data, count=128)", [("count", 128)]),
        ("x = torch.randn(64, 100)", [("randn", 64)]),
        ("x = prior.sample([128, 2])", [("sample", 128)]),
        ("x = draw(0x40)", [("draw", 64)]),
        ("x = data[torch.randperm(6400)[:64]]", [("randperm", 64), ("randperm", 6400)]),
        ("x = data[order[:64]]", [("order", 64)]),
        ("x = data[order[64:128]]", []),
        # Both may be the batch size.
        ("x, y = draw(32), draw(32)", []),
        ("x = draw(32)[:32]", []),
        # Numbers that count something else.
        ("x = torch.randn(n, 100)", []),
        ("x = draw(hidden=128)", []),
        ("for part in range(8): x = draw()", []),
        ("x = draw(1, True, 0.5)", []),
    ],
)
def test_literals_of_a_loop(body: str, found: list[tuple[str, int]]) -> None:
    source = f"x = first(512)\nfor step in range(1000):\n    {body}\n{STEP}"
    knobs = loop_literals(SourceText.of("train.py", source), 6)
    assert [(knob.name, knob.value) for knob in knobs] == found


def test_the_loop_is_the_one_that_ran() -> None:
    loops = [f"for step in range(9):\n    x = draw({size})\n{STEP}" for size in (16, 32)]
    source = "".join(loops)
    assert [knob.value for knob in loop_literals(SourceText.of("train.py", source), 5)] == [16]
    (knob,) = loop_literals(SourceText.of("train.py", source), 10)
    assert (knob.value, knob.span.line, knob.text) == (32, 7, "32")


def test_without_a_loop_there_are_none() -> None:
    assert loop_literals(SourceText.of("train.py", "x = draw(16)\n"), 1) == ()
