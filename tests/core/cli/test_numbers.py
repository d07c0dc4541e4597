"""Numbers of the command line that nothing can take: an error in words, never a traceback."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from skyline.cli import numbers
from skyline.cli.main import main

RECORDED = str(Path(__file__).resolve().parents[2] / "data" / "linear.profile.json.gz")
HUGE = ("1e400", "inf", "nan", "9" * 30, "9" * 5000, "-1", "many")


@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
@pytest.mark.parametrize(
    "kind",
    [
        numbers.positive,
        numbers.natural,
        numbers.port,
        numbers.seconds,
        numbers.minutes,
        numbers.gigabytes,
        numbers.duration,
    ],
)
def test_what_no_run_can_take_is_refused(kind, text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as refused:
        kind(text)
    assert len(str(refused.value)) < 100


def test_what_can_be_is_taken() -> None:
    assert numbers.positive("8") == 8
    assert numbers.natural("0") == 0
    assert numbers.port("65535") == 65535
    assert numbers.seconds("0.5") == 0.5
    assert numbers.gigabytes("1.5") == 1_500_000_000
    assert [numbers.duration(text) for text in ("90s", "5m", "0.5h")] == [90.0, 300.0, 1800.0]


@pytest.mark.parametrize(
    "words",
    [
        ["whatif", "--best", "--max-memory", "1e400"],
        ["whatif", "--timeout", "1e400"],
        ["verify", "--rounds", "9" * 30],
        ["serve", "--port", "99999999999999999999"],
        ["whatif", "PROFILE", "batch_size=1e400"],
        ["whatif", "PROFILE", "batch_size=" + "9" * 30],
        ["whatif", "PROFILE", "num_workers=999999999"],
    ],
    ids=range(7),
)
def test_commands_refuse_them_in_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [RECORDED if word == "PROFILE" else word for word in words]
    try:
        status = main([*arguments] if "PROFILE" in words else [*arguments, RECORDED])
    except SystemExit as left:
        status = left.code
    assert status == 2
    assert "Traceback" not in capsys.readouterr().err
