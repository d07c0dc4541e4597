"""Places in a notebook are shown by cell, wherever a report has one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from skyline.report.cells import CellPlaces, by_cells, notebook_notes, told_in_cells, with_cells
from skyline.report.place import place_of
from skyline.report.schema import LoopReport, PeakLine
from skyline.source.cells import script_of
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine

FILE = "/project/train.ipynb"
SCRIPT = script_of(["%matplotlib inline\nimport torch", "x = 1\ny = 2"])
SOURCE = SourceFile(FILE, "", SCRIPT)
MODULE = SourceFile("/project/model.py", "", "x = 1\n")
PLACES = CellPlaces.of([SOURCE, MODULE])


def test_texts_name_cells() -> None:
    assert PLACES.told("set at /elsewhere/train.ipynb:6.") == "set at In [2]:2."
    assert PLACES.told("as in train.ipynb line 5") == "as in In [2]:1"
    assert PLACES.told("read from train.ipynb, line 5 (`a: 1`)") == "read from In [2]:1 (`a: 1`)"
    assert PLACES.told('File "/p/train.ipynb", line 6, in <module>') == (
        'File "/p/train.ipynb", In [2]:2, in <module>'
    )


def test_other_places_stay() -> None:
    for text in (
        "model.py:5",
        "other.ipynb:5",
        "mytrain.ipynb:5",
        "train.ipynb:4",
        "train.ipynb:99",
        "on line 5",
    ):
        assert PLACES.told(text) == text


def test_names_and_folders_of_notebooks_may_have_blanks(tmp_path: Path) -> None:
    places = CellPlaces.of([SourceFile("/my project/My Notebook 1.ipynb", "", SCRIPT), MODULE])
    assert places.told("one step of Adam (My Notebook 1.ipynb line 6)") == "one step of Adam (In [2]:2)"
    assert places.told("set at /my project/My Notebook 1.ipynb:6.") == "set at In [2]:2."
    assert places.told("Notebook 1.ipynb:6") == "Notebook 1.ipynb:6"
    folder = tmp_path / "my project"
    folder.mkdir()
    notebook = folder / "My Notebook 1.ipynb"
    cells = [{"cell_type": "code", "source": source} for source in ("import torch", "x = 1\ny = z")]
    notebook.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    assert told_in_cells(f"Error at {notebook}:5: NameError") == "Error at In [2]:2: NameError"


def test_a_line_without_a_file_is_of_the_only_source() -> None:
    places = CellPlaces.of([SOURCE])
    assert places.told("as set on line 5.") == "as set at In [2]:1."
    assert places.told("x (line 6)") == "x (In [2]:2)"
    assert places.told("it is read on lines 3, 5 and 6") == "it is read at In [1]:2, In [2]:1 and In [2]:2"
    for text in ("x.py line 5", 'File "x", line 5', "on line 4", "lines 5, 400"):
        assert places.told(text) == text


def test_rows_get_their_cells() -> None:
    rows = (PeakLine(FILE, 6, "y = 2", 8), LoopReport("/project/model.py", 1))
    peak, loop = PLACES.fill(rows)
    assert (peak.cell, peak.file, peak.line) == ("In [2]:2", FILE, 6)
    assert loop.cell == ""
    assert place_of(peak, None) == "In [2]:2"
    assert place_of(loop, None) == "/project/model.py:1"


def test_a_profile_of_a_script_is_left_alone(profile: Profile) -> None:
    report = LoopReport("/project/train.py", 4)
    assert with_cells(report, profile) is report
    assert by_cells(profile) is profile
    assert notebook_notes(profile) == ()


def test_exports_and_notes_of_a_notebook(profile: Profile) -> None:
    lines = (CodeLine(FILE, 5, "f"), *profile.trace.lines[1:])
    made = replace(profile, sources=(SOURCE,), trace=replace(profile.trace, lines=lines))
    assert by_cells(made).trace.lines[0] == CodeLine("In [2]", 1, "f")
    assert notebook_notes(made) == (
        "Not run, because only IPython supports it: In [1]:1 %matplotlib inline.",
    )
