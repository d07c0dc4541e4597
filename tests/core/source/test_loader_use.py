"""Programs that surely make no loader, and those of which the source does not tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.source.loader_use import surely_has_no_loader
from skyline.source.text import SourceText, read_if_there


@pytest.mark.parametrize(
    ("script", "module", "surely"),
    [
        ("import torch\nx = torch.randn(2)\n", "", True),
        ("import numpy as np\nfrom own import batch\n", "import os\n", True),
        ("from torch.utils.data import DataLoader\n", "", False),
        ("import torch\nit = torch.utils.data.DataLoader([1])\n", "", False),
        ("from own import batch\n", "from torch.utils.data import DataLoader\n", False),
        ("from own import batch\n", "class FastLoader: ...\nuse = FastLoader\n", False),
        ("def load():\n    import transformers\n", "", False),
        ("from .gone import batch\n", "", False),
        ("import importlib\n", "", False),
    ],
)
def test_the_source_tells(tmp_path: Path, script: str, module: str, surely: bool) -> None:
    (tmp_path / "own.py").write_text(module)
    text = SourceText.of(str(tmp_path / "train.py"), script)
    assert surely_has_no_loader(text, read_if_there) is surely
