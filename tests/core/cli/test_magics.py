"""The magics in a real shell of IPython; what they run is real, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("IPython")

pytestmark = pytest.mark.capture

DEFINITIONS = (
    "import torch\nmodel = torch.nn.Linear(32, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)"
)
LOOP = """\
batch_size = 8
for step in range(2000):
    x = torch.randn(batch_size, 32)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    config = Config()
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=config)
    made.run_cell("%load_ext skyline", store_history=True)
    yield made
    InteractiveShell.clear_instance()


def run(shell: Any, cell: str) -> Any:
    """The value of a cell, which counts in the history as one that a person types."""
    result = shell.run_cell(cell, store_history=True)
    return result.result


def test_a_cell_is_profiled_after_the_earlier_ones(
    shell: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(shell, DEFINITIONS)  # 2
    run(shell, "1 / 0")  # 3
    run(shell, "weight = model.weight.detach().clone()")  # 4
    shown = run(shell, f"%%skyline --device cpu --budget 0\n{LOOP}")  # 5
    said = capfd.readouterr()
    assert shown is not None, said.err
    assert "2 earlier inputs of this session" in said.err
    assert "In [5]:5" in repr(shown)
    page = shown._repr_html_()
    assert page.startswith("<iframe srcdoc=")
    assert "In [5]:5" in page
    # The session itself did not train.
    assert run(shell, "bool((weight == model.weight).all())")

    answers = run(shell, "%skyline whatif batch_size=32")
    assert "batch_size=32" in repr(answers)
    assert "batch_size=32" in answers._repr_html_()
    assert run(shell, "%skyline show") is not None

    capfd.readouterr()
    run(shell, "%skyline apply batch_size=32")
    assert "+batch_size = 32" in capfd.readouterr().out


def test_a_question_before_a_profile_says_what_to_do(shell: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%skyline whatif") is None
    assert "Put %%skyline before a cell that trains" in capfd.readouterr().err


def test_an_error_in_the_cell_is_shown_with_its_line(shell: Any, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(shell, "%%skyline\nimport torch\nraise ValueError('no data')") is None
    said = capfd.readouterr().err
    assert "In [2]:3" in said
    assert "no data" in said


def test_other_words_list_the_commands(shell: Any, capfd: pytest.CaptureFixture[str]) -> None:
    run(shell, "%skyline")
    assert "%skyline whatif" in capfd.readouterr().out
