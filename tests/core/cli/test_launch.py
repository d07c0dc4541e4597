"""Which program a command line is about: a file, a module, or what torchrun was to start."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyline.capture.interpreter import module_file
from skyline.cli.launch import Launch, launch_of
from skyline.errors import UsageError


@pytest.mark.parametrize(
    ("words", "launch"),
    [
        ("train.py --lr 1", Launch("train.py", "", ("--lr", "1"))),
        ("-m package.train -m x", Launch("", "package.train", ("-m", "x"))),
        ("torchrun --nproc-per-node=2 train.py a", Launch("train.py", "", ("a",), 2)),
        (
            "torchrun --standalone --nnodes 1 --nproc_per_node 4 -m p.train a",
            Launch("", "p.train", ("a",), 4),
        ),
        ("-m torch.distributed.run --master-port 1 train.py", Launch("train.py", "", (), 1)),
    ],
)
def test_launch(words: str, launch: Launch) -> None:
    assert launch_of(words.split()) == launch


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "no script"),
        ("-m", "needs the name of a module"),
        ("torchrun --nproc-per-node gpu train.py", "a number of processes"),
        ("torchrun --nnodes 2 train.py", "one machine"),
        ("torchrun --standalone", "no script"),
    ],
)
def test_what_cannot_be_launched(words: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        launch_of(words.split())


def test_the_file_of_a_module(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    for name in ("__init__.py", "train.py"):
        (package / name).touch()

    assert module_file("package.train", tmp_path) == package / "train.py"
    with pytest.raises(UsageError, match="without a __main__ module"):
        module_file("package", tmp_path)
    (package / "__main__.py").touch()
    assert module_file("package", tmp_path) == package / "__main__.py"
    with pytest.raises(UsageError, match="There is no module other"):
        module_file("other", tmp_path)
    with pytest.raises(UsageError, match="not the name of a module"):
        module_file("package/train.py", tmp_path)


def test_the_script_or_module_after_python_is_read():
    assert launch_of(["python", "-u", "train.py", "--lr", "1"]) == Launch("train.py", "", ("--lr", "1"))
    assert launch_of(["python3.12", "-m", "package.train", "x"]) == Launch("", "package.train", ("x",))
