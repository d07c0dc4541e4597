"""Effects of a run other than training, in the profile; and that observation changes nothing in the run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skyline.capture.redactor import HIDDEN, Redactor
from skyline.report.pages.profile import allowed, prevented
from skyline.trace import store
from skyline.trace.facts import SideEffect
from skyline.trace.profile import Profile

pytestmark = pytest.mark.capture

Write = Callable[..., Path]
Run = Callable[..., Profile]

WRITER = """
import os, shutil, sys
import numpy
import torch
from torch.utils.data import DataLoader, Dataset

class Noisy(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        with open("worker.log", "a") as log:
            log.write("x")
        return torch.randn(4)

if os.path.exists("out"):
    shutil.rmtree("out")
os.makedirs("out/checkpoints")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("token", os.environ["MY_API_TOKEN"], *sys.argv[1:], flush=True)
for step, batch in enumerate(DataLoader(Noisy(), batch_size=2, num_workers=1)):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
    numpy.save("out/batch.npy", batch.numpy())
    torch.save(model.state_dict(), "out/checkpoints/tmp.pt")
    os.replace("out/checkpoints/tmp.pt", "out/checkpoints/last.pt")
    model.load_state_dict(torch.load("out/checkpoints/last.pt"))
    print("step", step)
"""


def test_they_are_listed_and_secrets_are_not_kept(
    script: Write, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "tok-1234567890")
    path = script(WRITER)
    old = tmp_path / "out" / "old.pt"
    old.parent.mkdir()
    old.write_text("precious")

    profile = run(path, "--api-key", "key-0987654321", "--password=pass-5555555")

    assert old.read_text() == "precious"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "train.py"]
    assert os.listdir(old.parent) == ["old.pt"]
    listed = {(effect.kind, Path(effect.target).name, effect.outcome) for effect in profile.side_effects}
    assert listed >= {
        ("removal", "out", "held back"),
        ("folder", "checkpoints", "redirected"),
        ("file", "batch.npy", "redirected"),
        ("file", "last.pt", "redirected"),
        ("file", "worker.log", "redirected"),
    }
    removal = next(effect for effect in profile.side_effects if effect.kind == "removal")
    assert removal.line is not None
    assert "shutil.rmtree" in path.read_text().splitlines()[removal.line.line - 1]
    assert profile.output_tail.splitlines()[-1].startswith("step ")
    assert profile.arguments == ("--api-key", HIDDEN, f"--password={HIDDEN}")

    import gzip

    saved = store.save(profile, tmp_path / "kept").read_bytes()
    text = gzip.decompress(saved) if saved[:2] == b"\x1f\x8b" else saved
    assert b"train.py" in text
    for secret in (b"tok-1234567890", b"key-0987654321", b"pass-5555555"):
        assert secret not in text


RANDOM = {
    "plain": """
        for step in range(STEPS):
            x = torch.randn(8, 4)
            loss = model(torch.nn.functional.dropout(x)).square().mean() * (1 + random.random() + numpy.random.rand())
            tell(loss)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        """,
    "loader with workers": """
        data = torch.utils.data.TensorDataset(torch.randn(4000, 4))
        loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, num_workers=1)
        step = 0
        while step < STEPS:
            for (x,) in loader:
                loss = model(x).square().mean()
                tell(loss)
                optimizer.zero_grad(); loss.backward(); optimizer.step()
                torch.save(model.state_dict(), "last.pt")
                step += 1
                if step >= STEPS: break
        """,
}


@pytest.mark.parametrize("style", RANDOM)
def test_losses_are_those_of_a_run_without_us(style: str, script: Write, run: Run, tmp_path: Path) -> None:
    import textwrap

    path = script(
        textwrap.dedent(
            """
            import random, sys
            import numpy, torch
            random.seed(1); numpy.random.seed(2); torch.manual_seed(3)
            STEPS = int(sys.argv[1])
            model = torch.nn.Linear(4, 1)
            optimizer = torch.optim.Adam(model.parameters())
            def tell(loss):
                print("loss", loss.item().hex())
            """
        )
        + textwrap.dedent(RANDOM[style])
    )
    alone = subprocess.run(
        [sys.executable, str(path), "30"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stdout.split("\n")[:30]
    output: list[str] = []

    run(path, "100000", output=output)

    watched = [line for line in "".join(output).splitlines() if line.startswith("loss")]
    assert len(alone) == 30
    # On a busy machine fewer iterations are affordable.
    assert len(watched) >= 15
    assert watched[:30] == alone[: len(watched)]


def test_a_summary_in_a_few_words() -> None:
    effects = (
        SideEffect("file", "/a", "redirected", 3),
        SideEffect("file", "/b", "redirected"),
        SideEffect("folder", "/c", "redirected"),
        SideEffect("tracker", "W&B", "held back"),
        SideEffect("download", "/data/x.gz", "allowed"),
        SideEffect("network", "example.org", "allowed"),
        SideEffect("evaluation", "model", "replayed", 40),
    )
    assert prevented(effects) == "2 files, 1 folder; W&B off"
    assert allowed(effects) == "1 downloaded file; host example.org"
    assert prevented(()) == allowed(()) == ""


def test_secrets_are_known_by_their_names() -> None:
    environment = {
        "HF_TOKEN": "hf_abcdef123",
        "AWS_SECRET_ACCESS_KEY": "aws/abc+def",
        "DB_PASSWORD": "hunter22",
        "PWD": "/somewhere/else",
        "KEYBOARD": "qwertyuiop",
        "MAX_TOKENS": "100000",
        "SHORT_KEY": "abc",
    }
    redactor = Redactor.of(environment, ("--lr", "0.1", "--hf-token", "from-the-line"))
    text = "hf_abcdef123 aws/abc+def hunter22 /somewhere/else qwertyuiop abc from-the-line"
    assert redactor.scrub(text) == f"{HIDDEN} {HIDDEN} {HIDDEN} /somewhere/else qwertyuiop abc {HIDDEN}"
    assert redactor.scrub("https://me:pw@host/x?a=1 step 5") == f"https://{HIDDEN}@host/x?a=1 step 5"
    assert (
        redactor.scrub("api_key=0123456789 tokens per second: 5") == f"api_key={HIDDEN} tokens per second: 5"
    )
    harmless = "set tokenizer.pad_token = tokenizer.eos_token, --pad-token something"
    assert redactor.scrub(harmless) == harmless
    assert redactor.scrub("password: correcthorse") == f"password: {HIDDEN}"
    assert Redactor.of({}).scrub_arguments(("--auth", "abc", "--tokenizer", "gpt2", "--steps", "3")) == (
        "--auth",
        HIDDEN,
        "--tokenizer",
        "gpt2",
        "--steps",
        "3",
    )
