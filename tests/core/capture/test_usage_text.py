"""Scripts that do not accept their arguments: the error shows their own usage text, and how to give arguments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.ended_early import complaint, usage_text
from skyline.errors import ArgumentsRefused, ExitCode, ScriptFailed
from skyline.trace.profile import Profile

Write = Callable[..., Path]
Run = Callable[..., Profile]

ARGPARSE = "usage: train.py [-h] --data DATA\ntrain.py: error: the following arguments are required: --data"
CLICK = "Usage: train.py [OPTIONS] DATA\nTry 'train.py --help' for help.\n\nError: Missing argument 'DATA'."
TYPER = (
    " Usage: train.py [OPTIONS] DATA\n"
    " Try 'train.py --help' for help.\n"
    "╭─ Error ───────────────────────────╮\n"
    "│ Missing argument 'DATA'.          │\n"
    "╰───────────────────────────────────╯"
)


@pytest.mark.parametrize(
    ("printed", "wrong"),
    [
        (ARGPARSE, "the following arguments are required: --data"),
        (CLICK, "Missing argument 'DATA'."),
        (TYPER, "Missing argument 'DATA'."),
        ("usage: train.py DATA", ""),
    ],
)
def test_usage_text_and_complaint(printed: str, wrong: str) -> None:
    found = usage_text(f"loading\nusage: of another program\n{printed}\n\n")
    assert found == printed.strip()
    assert complaint(found) == wrong


@pytest.mark.parametrize("printed", ["", "GPU usage: 45 %\nno memory left", "the usage of this is unknown"])
def test_other_output_is_no_usage_text(printed: str) -> None:
    assert usage_text(printed) == ""


def test_a_long_usage_text_is_cut() -> None:
    assert len(usage_text("usage: x\n" + "more\n" * 100).splitlines()) == 20


@pytest.mark.capture
def test_required_arguments_of_argparse(script: Write, run: Run) -> None:
    path = script(
        """
        import argparse
        import torch
        parser = argparse.ArgumentParser(prog="train.py")
        parser.add_argument("--data", required=True)
        parser.parse_args()
        """
    )
    with pytest.raises(ArgumentsRefused) as caught:
        run(path)
    error = caught.value
    assert error.usage == ARGPARSE
    assert error.message.endswith(
        "did not accept its arguments: the following arguments are required: --data"
    )
    assert f"skyline profile {path.name} ARGS…" in error.hint
    assert str(error) == f"{error.message}\n{ARGPARSE}\n{error.hint}"
    assert error.exit_code is ExitCode.SCRIPT_FAILED


@pytest.mark.capture
def test_a_usage_text_by_hand(script: Write, run: Run) -> None:
    with pytest.raises(ArgumentsRefused) as caught:
        run(script("import sys, torch\nsys.exit('usage: train.py DATA')\n"))
    # Python would have printed it; nobody has seen it yet.
    assert caught.value.traceback == caught.value.usage == "usage: train.py DATA"


@pytest.mark.capture
@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("print('no data')\nsys.exit(3)", "The script ended itself: exit status 3"),
        ("sys.exit(2)", "The script ended itself: exit status 2"),
    ],
)
def test_another_status_says_nothing_of_arguments(script: Write, run: Run, end: str, message: str) -> None:
    with pytest.raises(ScriptFailed) as caught:
        run(script(f"import sys, torch\n{end}\n"))
    assert not isinstance(caught.value, ArgumentsRefused)
    assert caught.value.message == message


@pytest.mark.capture
def test_a_status_after_training_says_nothing_of_arguments(script: Write, run: Run) -> None:
    path = script(
        """
        import sys
        import torch
        w = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([w], lr=0.1)
        (w * w).sum().backward()
        optimizer.step()
        print("usage: 45 %")
        sys.exit(2)
        """
    )
    with pytest.raises(ScriptFailed) as caught:
        run(path)
    assert not isinstance(caught.value, ArgumentsRefused)
