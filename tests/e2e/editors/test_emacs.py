"""The whole way in Emacs, first with lsp-mode, then with eglot, configured as the documentation says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def emacs() -> str:
    found = shutil.which("emacs")
    if found is None:
        pytest.skip("there is no Emacs: apt-get install emacs-nox elpa-eglot elpa-lsp-mode")
    return found


def drive(desk, emacs: str, way: str, configuration: list[str], driver: str = "") -> dict[str, Any]:
    """The content that a client showed with its part of the documentation for a configuration."""
    has = ["--batch", "--funcall", "package-initialize", "--eval", f"(require '{way})"]
    if subprocess.run([emacs, *has], capture_output=True, check=False, timeout=60).returncode:
        pytest.skip(f"this Emacs has no {way}: apt-get install elpa-{way}")
    own = desk.home / f"{way}.el"
    own.write_text("\n".join(configuration))
    loaded = [
        part
        for file in (own, HERE / "drive.el", HERE / f"drive-{driver or way}.el")
        for part in ("-l", str(file))
    ]
    return desk.run(emacs, "--batch", "--funcall", "package-initialize", *loaded, str(desk.script))


def check_lines(desk, seen: dict[str, Any]) -> None:
    """Check the texts and actions of both clients at lines."""
    assert "Adam" in desk.text.splitlines()[seen["finding"]["line"]]
    assert "backward" in seen["hover"]
    assert "measured" in seen["hover"]
    assert "in the code" in seen["curve"], "other batch sizes are told at the batch size"
    assert "samples/s" in seen["curve"]
    for words in (
        "fused optimizer",
        "torch.compile",
        "gradient accumulation",
        "worker process",
        "batch size",
    ):
        assert any(words in title for title in seen["at-loop"]), f"{words} is not offered at the loop"
    for words in ("double the batch size to 64, ", "halve the batch size to 16, "):
        assert any(words in title and "samples/s" in title for title in seen["at-size"]), words
    assert seen["changed"] == desk.text.replace("lr=1e-3)", "lr=1e-3, fused=True)")
    assert seen["undone"] is True
    assert desk.script.read_text() == desk.text


@pytest.mark.capture
def test_look_profile_apply_and_undo_in_lsp_mode(desk, emacs: str) -> None:
    seen = drive(desk, emacs, "lsp-mode", desk.snippets("emacs.md", "elisp")[:1])
    assert "Profile this training script" in seen["invitation"]["title"]
    assert "for x, y in loader" in desk.text.splitlines()[seen["invitation"]["line"]]
    assert "cancel" in seen["running"], "the lens follows the run"
    assert "samples/s" in seen["headline"]
    check_lines(desk, seen)


@pytest.mark.capture
def test_look_profile_apply_and_undo_in_eglot(desk, emacs: str) -> None:
    seen = drive(desk, emacs, "eglot", desk.snippets("emacs.md", "elisp")[1:])
    start, known, end = seen["told"]
    assert start.endswith("Profiling train.py…")
    assert "other batch sizes follow" in known
    assert "samples/s" in end
    assert "peak" in end
    check_lines(desk, seen)


@pytest.mark.capture
@pytest.mark.long
def test_a_script_that_waits_for_data_is_helped_by_two_commands(waiting, emacs: str) -> None:
    seen = drive(waiting, emacs, "eglot", waiting.snippets("emacs.md", "elisp")[1:], "eglot-task")
    waiting.check_answer(seen["answer"])
    added = re.search(r"DataLoader\(Images\(\), batch_size=32(, .*num_workers=\d+.*)\)\n", seen["changed"])
    assert added, seen["changed"]
    assert seen["changed"].replace(added[1], "", 1) == waiting.text
