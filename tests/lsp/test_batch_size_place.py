"""The batch size is found again in a text that was edited, with the number that stands there."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.report.build import profile_report
from skyline.report.schema import BatchSizeReport, KnobReport, ProfileReport
from skyline.source.text import SourceText
from skyline.trace.store import load
from skyline_lsp.batch_size_place import batch_size_place

SCRIPT = "import torch\n\nloader = DataLoader(data, batch_size=16, shuffle=True)\n"


@pytest.fixture(scope="module")
def report() -> ProfileReport:
    path = Path(__file__).parents[1] / "data" / "linear.profile.json.gz"
    return profile_report(analyse(load(path)))


def _report(report: ProfileReport, script: str, literal: str, kind: str, value: int) -> ProfileReport:
    text = SourceText.of("train.py", script)
    line = next(number for number in range(1, text.line_count + 1) if literal in text.line(number))
    column = text.line(line).rindex(literal)
    knob = KnobReport("train.py", line, column, column + len(literal), literal, kind)
    fields = {name: getattr(report, name) for name in type(report).__dataclass_fields__}
    return ProfileReport(**{**fields, "batch_size": BatchSizeReport(value, knob, None)})


@pytest.mark.parametrize(
    ("edited", "found"),
    [
        (SCRIPT, (3, "batch_size=16", 16)),
        ("# first\n" + SCRIPT, (4, "batch_size=16", 16)),
        (SCRIPT.replace("16", "128"), (3, "batch_size=128", 128)),
        ("# first\n" + SCRIPT.replace("16", "0x40"), (4, "batch_size=0x40", 64)),
        (SCRIPT.replace("16", "1_024").replace("True)", "True)  "), (3, "batch_size=1_024", 1024)),
        # Two lines alike: the one that is where it was.
        (SCRIPT + SCRIPT.replace("16", "99"), (3, "batch_size=16", 16)),
        (SCRIPT.replace("16", "7") + "\n\n\n" + SCRIPT.replace("16", "99"), (3, "batch_size=7", 7)),
        (SCRIPT.replace("16", "size"), None),
        (SCRIPT.replace("16", "0"), None),
        (SCRIPT.replace("shuffle=True", "shuffle=False"), None),
        ("", None),
    ],
)
def test_the_place_moves_with_the_text(
    report: ProfileReport, edited: str, found: tuple[int, str, int] | None
) -> None:
    known = _report(report, SCRIPT, "16", "call argument", 16)
    text = SourceText.of("train.py", edited)
    place = batch_size_place(known, SourceText.of("train.py", SCRIPT), text)
    assert found == (place and (place.span.line, text.at(place.span), place.value))


@pytest.mark.parametrize(
    ("script", "literal", "place"),
    [
        ("BATCH_SIZE = 64\n", "64", "BATCH_SIZE = 64"),
        ("B = 64\n", "64", "B = 64"),
        ("size = 64\n", "64", "64"),
        (
            'p.add_argument("--batch-size", type=int, default=64)\n',
            "64",
            '--batch-size", type=int, default=64',
        ),
        ('settings = {"epochs": 3, "batch_size": 64}\n', "64", 'batch_size": 64'),
    ],
)
def test_the_name_before_the_number_belongs_to_the_place(
    report: ProfileReport, script: str, literal: str, place: str
) -> None:
    text = SourceText.of("train.py", script)
    found = batch_size_place(_report(report, script, literal, "constant", 64), text, text)
    assert found is not None
    assert text.at(found.span) == place


def test_what_the_command_line_sets_is_in_force_whatever_the_file_says(report: ProfileReport) -> None:
    script = "BATCH_SIZE = 64\n"
    text = SourceText.of("train.py", script)
    known = _report(report, script, "64", "command line", 8)
    place = batch_size_place(known, text, text)
    assert place is not None
    assert place.value == 8
    assert batch_size_place(known, text, SourceText.of("train.py", "BATCH_SIZE = 32\n")) is None
    assert batch_size_place(known, text, SourceText.of("other.py", script)) is None
