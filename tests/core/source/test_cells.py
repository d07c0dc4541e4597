"""The cells of a notebook become one script, and come back from it."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyline.source.cells import CellLine, cell_line, cells_of, left_out, script_of
from skyline.source.text import SourceText

CELLS = ("import torch\nx = 1", "for i in range(3):\n    x += i\n")


def test_every_cell_has_a_heading_and_its_lines() -> None:
    script = script_of(CELLS)
    assert script == "# In [1]\nimport torch\nx = 1\n# In [2]\nfor i in range(3):\n    x += i\n\n"
    assert cells_of(script) == CELLS


def test_lines_and_cells_lead_to_each_other() -> None:
    script = script_of(CELLS)
    assert cell_line(script, 1) is None
    assert cell_line(script, 3) == CellLine(1, 2)
    assert str(cell_line(script, 6)) == "In [2]:2"
    assert cell_line(script, 99) is None


@given(st.lists(st.text(st.sampled_from("ab =%!?\n\r#é\f"), max_size=30), max_size=4))
def test_cells_come_back(cells: list[str]) -> None:
    assert cells_of(script_of(cells)) == tuple(cells)


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("%matplotlib inline", "# IPython: %matplotlib inline"),
        ("x = 1\n!pip install torch", "x = 1\n# IPython: !pip install torch"),
        ("if True:\n    !ls\n    x = 2", "if True:\n    pass  # IPython: !ls\n    x = 2"),
        ("files = !ls", "files = []  # IPython: files = !ls"),
        ("%time train(model)", "train(model)  # IPython: %time train(model)"),
        ("%timeit -n 10 f(x)", "f(x)  # IPython: %timeit -n 10 f(x)"),
        ("model?", "# IPython: model?"),
        ("?model", "# IPython: ?model"),
        ("%%time\nx = 1\n%env A=1", "# IPython: %%time\nx = 1\n# IPython: %env A=1"),
        ("%%bash\nls\n\ncd x", "# IPython: %%bash\n# IPython: ls\n# IPython: \n# IPython: cd x"),
        ("!pip install \\\n  torch", "# IPython: !pip install \\\n# IPython:   torch"),
    ],
)
def test_what_only_ipython_understands_becomes_a_comment(cell: str, code: str) -> None:
    script = script_of([cell])
    assert script == f"# In [1]\n{code}\n"
    ast.parse(script)
    assert cells_of(script) == (cell,)


@pytest.mark.parametrize(
    "cell",
    [
        "x = (7\n% 3)",
        's = """\n%matplotlib inline\n!ls\n"""',
        "y = a if b else c  # really?",
        "s = 'why?'",
        "assert x != 3",
    ],
)
def test_python_stays_python(cell: str) -> None:
    assert script_of([cell]) == f"# In [1]\n{cell}\n"


def test_a_future_import_in_a_later_cell_is_a_comment() -> None:
    script = script_of(["# title", "%pylab", "from __future__ import annotations\nx = 1", CELLS[0]])
    compile(script, "x", "exec")
    assert "\nfrom __future__ import annotations\n" in script
    later = script_of(["x = 1", "from __future__ import annotations"])
    compile(later, "x", "exec")
    assert cells_of(later) == ("x = 1", "from __future__ import annotations")


def test_an_error_of_the_notebook_stays_where_it_is() -> None:
    script = script_of(["!ls", "for x in (1, 2:\n    pass"])
    with pytest.raises(SyntaxError) as error:
        ast.parse(script)
    assert str(cell_line(script, error.value.lineno or 0)) == "In [2]:1"


def test_lines_that_are_not_run_are_listed_once() -> None:
    script = script_of(
        ["!pip install \\\n  torch\nx = 1", "%%time\n%time f()", "%%bash\nls\n!pwd", "x = !ls"]
    )
    assert [(str(place), words) for place, words in left_out(script)] == [
        ("In [1]:1", "!pip install \\"),
        ("In [3]:1", "%%bash"),
        ("In [4]:1", "x = !ls"),
    ]


def test_text_before_the_first_heading_begins_the_first_cell() -> None:
    assert cells_of("import os\n" + script_of(CELLS))[0] == "import os\nimport torch\nx = 1"


def test_code_of_a_notebook_cannot_be_written_without_it() -> None:
    from skyline.errors import UsageError

    with pytest.raises(UsageError, match="its code alone"):
        SourceText.of("train.ipynb", script_of(CELLS)).encode()
