"""The whole way in Emacs, first with lsp-mode, then with eglot, configured as the documentation says."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def emacs() -> str:
    found = shutil.which("emacs")
    if found is None:
        pytest.skip("there is no Emacs: apt-get install emacs-nox elpa-eglot elpa-lsp-mode")
    for package in ("eglot", "lsp-mode"):
        has = ["--batch", "--funcall", "package-initialize", "--eval", f"(require '{package})"]
        if subprocess.run([found, *has], capture_output=True, check=False, timeout=60).returncode:
            pytest.skip(f"this Emacs has no {package}: apt-get install elpa-{package}")
    return found


@pytest.mark.capture
def test_look_profile_apply_and_undo_in_emacs(desk, emacs: str) -> None:
    snippets = desk.snippets("emacs.md", "elisp")
    lines = desk.text.splitlines()
    for way, configuration in (("lsp-mode", snippets[:1]), ("eglot", snippets[1:])):
        own = desk.home / f"{way}.el"
        own.write_text("\n".join(configuration))
        loaded = [
            part for file in (own, HERE / "drive.el", HERE / f"drive-{way}.el") for part in ("-l", str(file))
        ]
        seen = desk.run(emacs, "--batch", "--funcall", "package-initialize", *loaded, str(desk.script))
        if way == "lsp-mode":
            assert "Profile this training script" in seen["invitation"]
            assert "per iteration" in seen["headline"]
        assert "Adam" in lines[seen["finding"]["line"]]
        assert "backward" in seen["hover"]
        assert "measured" in seen["hover"]
        assert seen["changed"] == desk.text.replace("lr=1e-3)", "lr=1e-3, fused=True)")
        assert seen["undone"] is True
        assert desk.script.read_text() == desk.text
