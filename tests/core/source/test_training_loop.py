"""The loop over batches is distinguished from the other loops of a script."""

from __future__ import annotations

import pytest

from skyline.errors import UsageError
from skyline.source.text import SourceText
from skyline.source.training_loop import find

STEP = "loss.backward(); optimizer.step()"


def header(source: str, step_line: int | None = None) -> tuple[int, str] | None:
    text = SourceText.of("x.py", source)
    span = find(text, step_line)
    return (span.line, text.at(span)) if span else None


CASES = [
    (f"for epoch in range(3):\n    for x in loader:\n        {STEP}\n", (2, "for x in loader:")),
    (f"while True:\n    {STEP}\n", (1, "while True:")),
    (
        "while True:\n    for micro in range(4):\n        loss.backward()\n    scaler.step(optimizer)\n",
        (1, "while True:"),
    ),
    (f"for x in a:\n    {STEP}\n    for o in others:\n        o.step()\n", (1, "for x in a:")),
    (
        "def step(x):\n    loss.backward()\n    opt.step()\nfor e in es:\n    for x in loader:\n        step(x)\n",
        (5, "for x in loader:"),
    ),
    (
        f"def epoch():\n    for x in loader:\n        {STEP}\nfor e in range(9):\n    epoch()\n",
        (2, "for x in loader:"),
    ),
    (
        (
            "class T:\n    def one(self):\n        self.loss.backward()\n        self.optimizer.step()\n"
            "    def fit(self):\n        for x in self.loader:\n            self.one()\n"
        ),
        (6, "for x in self.loader:"),
    ),
    (
        f"for x in val:\n    model(x)\nfor e in es:\n    for x in loader:\n        {STEP}\n    scheduler.step()\n",
        (4, "for x in loader:"),
    ),
    (
        "for x in loader:\n    def closure():\n        loss.backward()\n    optimizer.step(closure)\n",
        (1, "for x in loader:"),
    ),
    (f"for x in (  # a\n    loader\n):  # b\n    {STEP}\n", (1, "for x in (  # a\n    loader\n):")),
    ("for x in loader:\n    env.step(x)\n", None),
    ("x = 1\n", None),
]


@pytest.mark.parametrize(("source", "expected"), CASES)
def test_found_without_running(source: str, expected: tuple[int, str] | None) -> None:
    assert header(source) == expected


def test_the_line_of_the_step_decides() -> None:
    source = (
        f"for x in first:\n    {STEP}\n"
        "def train(x):\n    loss.backward()\n    optimizer.step()\n"
        "for e in es:\n    for x in second:\n        train(x)\n"
    )
    assert header(source, 2) == (1, "for x in first:")
    assert header(source, 5) == (7, "for x in second:")
    assert header(source, 8) == (7, "for x in second:")
    assert header("for x in a:\n    hidden(x)\n", 2) == (1, "for x in a:")


def test_a_header_alone_is_no_statement_of_the_loop() -> None:
    assert header("for e in es:\n    for x in trainer.steps(e):\n        log(x)\n", 2) == (1, "for e in es:")


def test_recursion_comes_to_an_end() -> None:
    assert header("def f():\n    g()\ndef g():\n    f()\nfor x in a:\n    f()\n", 2) is not None
    assert header("def f():\n    f()\n", 2) is None


def test_what_is_not_python_is_an_error() -> None:
    with pytest.raises(UsageError):
        header("for\n")
