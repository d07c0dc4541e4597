"""A module is traced to the scripts that train with it, by imports alone and within bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline_lsp.entry_script import MOST_FILES, trainers
from skyline_lsp.training_script import is_program

LOOP = """\
for x, y in batches():
    loss = net(x, y)
    loss.backward()
    optimizer.step()
"""
DATA = "import torch\n\n\ndef batches():\n    return []\n"


def written(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def found(root: Path, module: str = "data.py", **unsaved: str) -> list[str]:
    texts = {str(root / f"{name}.py"): text for name, text in unsaved.items()}
    return [str(Path(path).relative_to(root)) for path in trainers(str(root / module), str(root), texts)]


def test_the_one_script_that_imports_it(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "data.py": DATA,
            "train.py": f"from data import batches\n{LOOP}",
            "other.py": LOOP,
            "use.py": "from data import batches\nprint(len(batches()))\n",
        },
    )
    assert found(root) == ["train.py"]


@pytest.mark.parametrize(
    "line",
    [
        "import pack.data",
        "from pack import data",
        "from pack.data import batches",
        "import torch, pack.data as d",
        "def main():\n    from pack import data\nmain()",
    ],
)
def test_ways_to_import(tmp_path: Path, line: str) -> None:
    root = written(tmp_path, {"pack/__init__.py": "", "pack/data.py": DATA, "train.py": f"{line}\n{LOOP}"})
    assert found(root, "pack/data.py") == ["train.py"]


def test_through_other_modules_and_relative_imports(tmp_path: Path) -> None:
    root = written(
        tmp_path,
        {
            "pack/__init__.py": "",
            "pack/data.py": DATA,
            "pack/engine.py": f"from .data import batches\ndef epoch():\n{indented(LOOP)}",
            "scripts/go.py": "from pack.engine import epoch\nif __name__ == '__main__':\n    epoch()\n",
        },
    )
    # The loop is in a module that only defines it: what is run is the script that calls it.
    assert found(root, "pack/data.py") == ["scripts/go.py"]
    assert found(root, "pack/engine.py") == ["scripts/go.py"]


def test_scripts_of_trainer_libraries(tmp_path: Path) -> None:
    text = "from data import batches\nimport lightning as L\ntrainer = L.Trainer()\ntrainer.fit(net, batches())\n"
    assert found(written(tmp_path, {"data.py": DATA, "fit.py": text})) == ["fit.py"]


def test_the_likeliest_comes_first(tmp_path: Path) -> None:
    text = f"from data import batches\n{LOOP}"
    root = written(
        tmp_path,
        {
            "data.py": DATA,
            "ablation.py": text,
            "main.py": text,
            "train_big.py": text,
            "test_train.py": text,
            "deep.py": f"import middle\n{LOOP}",
            "middle.py": "import data\n",
            "calls.py": "import train_big, data\nif __name__ == '__main__':\n    train_big.go()\n",
        },
    )
    assert found(root) == ["train_big.py", "main.py", "ablation.py", "deep.py", "calls.py"]


def test_unsaved_text_counts(tmp_path: Path) -> None:
    root = written(tmp_path, {"data.py": DATA, "train.py": "print(1)\n"})
    assert found(root) == []
    assert found(root, train=f"import data\n{LOOP}") == ["train.py"]


def test_environments_and_hidden_folders_are_left_out(tmp_path: Path) -> None:
    text = f"import data\n{LOOP}"
    folders = (".hidden", "node_modules/x", "env", "env/lib", "__pycache__")
    root = written(tmp_path, {"data.py": DATA, **{f"{folder}/train.py": text for folder in folders}})
    (root / "env/pyvenv.cfg").write_text("")
    assert found(root) == []


def test_the_search_has_an_end_and_begins_nearby(tmp_path: Path) -> None:
    far = {"z/near/data.py": DATA, "b/far/train.py": f"from z.near import data\n{LOOP}"}
    root = written(tmp_path, {**far, "z/train.py": f"from near import data\n{LOOP}"})
    assert found(root, "z/near/data.py") == ["z/train.py", "b/far/train.py"]
    written(root, {f"a/{number}.py": "x = 1\n" for number in range(MOST_FILES)})
    assert found(root, "z/near/data.py") == ["z/train.py"]


def test_a_folder_of_very_many_entries_is_left_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyline_lsp.entry_script._MOST_ENTRIES", 30)
    root = written(tmp_path, {"data.py": DATA, "later/train.py": f"import data\n{LOOP}"})
    assert found(root) == ["later/train.py"]
    written(root, {f"images/{number}.txt": "" for number in range(40)})
    assert found(root) == []


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        (DATA, False),
        ('"""A docstring."""\nimport torch\ntorch.manual_seed(0)\nSIZE = 3\nNET = Net()\n', False),
        ("try:\n    import apex\nexcept ImportError:\n    apex = None\n", False),
        ("if TYPE_CHECKING:\n    import torch\n", False),
        ("import sys\nsys.path.append('.')\n", False),
        ("def main(): ...\nif __name__ == '__main__':\n    main()\n", True),
        ("def main(): ...\nmain()\n", True),
        ("import fire\nfire.Fire(main)\n", True),
        ("result = trainer.train()\n", True),
        (LOOP, True),
        ("with torch.no_grad():\n    f()\n", True),
        ("def broken(:\n", True),
    ],
)
def test_programs_and_modules(text: str, runs: bool) -> None:
    assert is_program(text) is runs


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
