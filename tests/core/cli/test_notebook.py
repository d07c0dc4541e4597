"""Commands on a notebook, which really runs: places are cells, and changes go into cells."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

Run = Callable[..., Any]
pytestmark = pytest.mark.capture

CELLS = [
    "%matplotlib inline\n!pip install torch\nfrom pathlib import Path\nimport sizes",
    "import torch\nfrom torch.utils.data import DataLoader, TensorDataset",
    (
        "batch_size = 16\ndata = TensorDataset(torch.randn(8192, 32), torch.randn(8192, 4))\n"
        "loader = DataLoader(data, batch_size=batch_size)"
    ),
    "",
    (
        "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.first = torch.nn.Linear(32, sizes.HIDDEN)\n"
        "        self.last = torch.nn.Linear(sizes.HIDDEN, 4)\n\n"
        "    def forward(self, x):\n        return self.last(self.first(x).relu())\n\n\nmodel = Net()\nmodel"
    ),
    (
        "optimizer = torch.optim.Adam(model.parameters())\ndisplay(model)\nprint(type(get_ipython()))\n"
        "assert Path('sizes.py').exists(), 'not in the folder of the notebook'"
    ),
    (
        "%%time\nfor epoch in range(100):\n    for x, y in loader:\n        optimizer.zero_grad()\n"
        "        loss = (model(x) - y).square().mean()\n        loss.backward()\n        optimizer.step()"
    ),
]


def notebook(cells: list[str]) -> str:
    entries = [
        {
            "cell_type": "code",
            "execution_count": 40 + number,
            "id": f"cell{number}",
            "metadata": {},
            "outputs": [],
            "source": cell.splitlines(keepends=True),
        }
        for number, cell in enumerate(cells)
    ]
    title = {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Training"]}
    content = {"cells": [title, *entries], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1) + "\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A notebook in a folder of its own, with a module in it."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "sizes.py").write_text("HIDDEN = 64\n")
    path = folder / "train.ipynb"
    path.write_text(notebook(CELLS))
    return path


def profile(skyline: Run, path: Path, *options: str) -> Any:
    return skyline(
        "profile", "--interpreter", sys.executable, "--device", "cpu", "--budget", "0", *options, str(path)
    )


def test_a_notebook_from_profile_to_apply(skyline: Run, path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    ran = profile(skyline, path, "--json", str(tmp_path / "out.json"))
    assert ran.code == 0, ran.err
    assert "In [6]:5" in ran.out
    assert "train.ipynb:" not in ran.out
    assert "In [1]:1 %matplotlib inline, In [1]:2 !pip install torch" in " ".join(ran.out.split())
    assert path.read_bytes() == before

    report = json.loads((tmp_path / "out.json").read_text())
    assert report["batch_size"]["knob"]["cell"] == "In [3]:1"
    assert report["loop"]["cell"] == "In [6]:3"
    dear = next(line for line in report["lines"] if line["cell"] == "In [6]:5")
    assert dear["source"].strip() == "loss = (model(x) - y).square().mean()"
    assert dear["file"] == str(path.resolve())
    assert dear["line"] > 5

    shown = skyline("show", str(path), "--line", "In [6]:5")
    assert shown.code == 0, shown.err
    assert "In [6]:5" in shown.out

    asked = skyline("whatif", str(path), "fused_optimizer")
    assert asked.code == 0, asked.err
    assert "profiling again" not in asked.err

    shown = skyline("apply", str(path), "batch_size=64", "fused_optimizer", "--diff")
    assert shown.code == 0, shown.err
    assert "+++ b/train.ipynb In [3]" in shown.out or "work/train.ipynb In [3]" in shown.out
    assert "+batch_size = 64" in shown.out
    assert path.read_bytes() == before

    applied = skyline("apply", str(path), "batch_size=64", "fused_optimizer")
    assert applied.code == 0, applied.err
    assert "train.ipynb In [3]:1: 16 -> 64" in applied.out
    assert path.read_bytes() == before.replace(b"batch_size = 16", b"batch_size = 64").replace(
        b"Adam(model.parameters())", b"Adam(model.parameters(), fused=True)"
    )

    exported = tmp_path / "train.speedscope.json"
    assert skyline("export", str(path), "--format", "speedscope", "-o", str(exported)).code == 0
    assert "(In [6]:5)" in exported.read_text()


def test_an_error_names_the_cell_and_shows_its_line(skyline: Run, path: Path) -> None:
    path.write_text(notebook([*CELLS[:2], "x = 1\nraise ValueError('no data')", *CELLS[2:]]))
    ran = profile(skyline, path)
    assert ran.code == 1
    assert 'train.ipynb", In [3]:2' in ran.err
    assert "raise ValueError('no data')" in ran.err


def test_a_syntax_error_names_the_cell(skyline: Run, path: Path) -> None:
    path.write_text(notebook([*CELLS[:2], "for x in (1, 2:\n    pass"]))
    ran = profile(skyline, path)
    assert ran.code == 1
    assert 'train.ipynb", In [3]:1' in ran.err


def test_a_notebook_and_a_script_of_one_name_have_their_own_profiles(
    skyline: Run, path: Path, script: Path, saved: Path
) -> None:
    beside = script.with_suffix(".ipynb")
    beside.write_text(notebook(CELLS))
    (script.parent / "sizes.py").write_text("HIDDEN = 64\n")
    assert skyline("show", str(beside)).code == 2
    assert profile(skyline, beside).code == 0
    assert "train.py" in skyline("show", str(script)).out
    assert "train.ipynb" in skyline("show", str(beside)).out


@pytest.mark.long
def test_a_change_of_a_notebook_is_verified(skyline: Run, path: Path) -> None:
    before = path.read_bytes()
    assert profile(skyline, path).code == 0
    ran = skyline("verify", str(path), "fused_optimizer", "--rounds", "6", "--no-ledger", "--json", "-")
    assert ran.code == 0, ran.err
    assert "train.ipynb In [5]" in json.loads(ran.out)["diff"]
    assert json.loads(ran.out)["measured"]["rounds"] >= 6
    assert path.read_bytes() == before
