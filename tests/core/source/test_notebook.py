"""A changed script goes back into the cells of its notebook, and nothing else of the file changes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from skyline.errors import RewriteRefused, UsageError
from skyline.source.text import SourceText

nbformat = pytest.importorskip("nbformat")

PICTURE = {"data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure>"]}, "metadata": {}}
CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "a1", "metadata": {}, "source": ["# Größe\n", "batch_size=16"]},
    {
        "cell_type": "code",
        "execution_count": 7,
        "id": "b2",
        "metadata": {"tags": ["keep"]},
        "outputs": [{"output_type": "display_data", **PICTURE}],
        "source": ["%matplotlib inline\n", "import torch\n", 'name = "Größe \\u00e9"\n', "batch_size = 16"],
    },
    {"cell_type": "code", "execution_count": None, "id": "c3", "metadata": {}, "outputs": [], "source": []},
    {
        "cell_type": "code",
        "execution_count": None,
        "id": "d4",
        "metadata": {},
        "outputs": [],
        "source": ["print(batch_size)\n", "print(name)\n"],
    },
]


def content(**changes: Any) -> dict[str, Any]:
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": CELLS, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5, **changes}


def as_written(indent: int | None, ascii_only: bool, end: str) -> bytes:
    return (json.dumps(content(), indent=indent, ensure_ascii=ascii_only) + end).encode()


def changed(path: Path, old: str, new: str) -> bytes:
    """The file with a text replaced in its script."""
    source = SourceText.read(path)
    start = source.text.index(old)
    edit = source.edit(source.span(start, start + len(old)), new)
    return source.apply((edit,)).encode()


@pytest.mark.parametrize("indent", [1, 2, 4, None])
@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("end", ["\n", ""])
def test_only_the_changed_line_changes(
    tmp_path: Path, indent: int | None, ascii_only: bool, end: str
) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(as_written(indent, ascii_only, end))
    before = path.read_bytes()
    assert SourceText.read(path).encode() == before
    assert changed(path, "batch_size = 16", "batch_size = 64") == before.replace(
        b'"batch_size = 16"', b'"batch_size = 64"'
    )


def test_added_lines_are_laid_out_as_the_others(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(as_written(1, ascii_only=False, end="\n"))
    after = changed(path, "import torch\n", "import torch\nimport os\n")
    expected = content()
    expected["cells"] = [dict(cell) for cell in CELLS]
    expected["cells"][1]["source"] = [*CELLS[1]["source"][:2], "import os\n", *CELLS[1]["source"][2:]]
    assert after == (json.dumps(expected, indent=1, ensure_ascii=False) + "\n").encode()


def test_it_is_what_nbformat_would_write(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    node = nbformat.reads(json.dumps(content()), as_version=4)
    nbformat.write(node, path)
    node.cells[1].source = node.cells[1].source.replace("batch_size = 16", "batch_size = 16\nlr = 0.1")
    expected = tmp_path / "expected.ipynb"
    nbformat.write(node, expected)
    assert changed(path, "batch_size = 16", "batch_size = 16\nlr = 0.1") == expected.read_bytes()


@pytest.mark.parametrize("source", ["x = 1\nbatch_size = 16\n", ["x = 1\nbatch_size = 16\n"]])
def test_a_source_in_one_piece_stays_in_one_piece(tmp_path: Path, source: object) -> None:
    path = tmp_path / "train.ipynb"
    cell = {**CELLS[1], "source": source}
    path.write_text(json.dumps(content(cells=[cell]), indent=2))
    before = path.read_bytes()
    assert changed(path, "16", "64") == before.replace(b"batch_size = 16", b"batch_size = 64")


def test_blank_cells_are_not_counted(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(as_written(1, ascii_only=False, end="\n"))
    assert "# In [2]\nprint(batch_size)" in SourceText.read(path).text


def test_a_change_that_reaches_across_cells_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    path.write_bytes(as_written(1, ascii_only=False, end="\n"))
    with pytest.raises(RewriteRefused, match="across cells"):
        changed(path, "16\n# In [2]\nprint", "64\nprint")


def test_a_line_of_ipython_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "train.ipynb"
    cell = {**CELLS[1], "source": "%time f(16)"}
    path.write_text(json.dumps(content(cells=[cell]), indent=1))
    with pytest.raises(RewriteRefused, match="command of IPython"):
        changed(path, "f(16)  #", "f(64)  #")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no JSON", "damaged or not a notebook"),
        ('{"traceEvents": []}', "damaged or not a notebook: it has no 'nbformat'"),
        ("[]", "damaged or not a notebook"),
        (json.dumps(content(cells=[])), "no code cells"),
        (json.dumps(content(metadata={"language_info": {"name": "julia"}})), "notebook in julia"),
        (json.dumps(content(cells=[{**CELLS[1], "source": "# In [3]\nx = 1"}])), "which Skyline uses itself"),
    ],
)
def test_files_that_cannot_be_read_say_why(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "train.ipynb"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        SourceText.read(path)


def old_notebook(folder: Path) -> Path:
    cell = {
        "cell_type": "code",
        "collapsed": False,
        "input": ["x = 16"],
        "language": "python",
        "metadata": {},
        "outputs": [],
    }
    old = {
        "metadata": {"name": ""},
        "nbformat": 3,
        "nbformat_minor": 0,
        "worksheets": [{"cells": [cell], "metadata": {}}],
    }
    path = folder / "train.ipynb"
    path.write_text(json.dumps(old))
    return path


def test_an_old_notebook_is_read_and_not_written(tmp_path: Path) -> None:
    path = old_notebook(tmp_path)
    assert SourceText.read(path).text == "# In [1]\nx = 16\n"
    with pytest.raises(RewriteRefused, match="cannot be written"):
        changed(path, "16", "64")


def test_only_an_old_notebook_needs_nbformat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nbformat", None)
    path = tmp_path / "new.ipynb"
    path.write_bytes(as_written(1, ascii_only=False, end="\n"))
    assert SourceText.read(path).text.startswith("# In [1]")
    with pytest.raises(UsageError, match="which nbformat reads") as error:
        SourceText.read(old_notebook(tmp_path))
    assert "skyline-profiler[notebook]" in error.value.hint
