"""The changes by hand in the table of leaner models compute the same as the unchanged forms."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
torch = pytest.importorskip("torch")


def test_a_scanned_backward_pass_gives_the_gradients_of_autograd():
    from leaner_cases import SCANNED

    space: dict[str, Any] = {"torch": torch}
    exec(SCANNED, space)
    torch.manual_seed(0)
    layers = [torch.nn.Linear(a, b).double() for a, b in ((3, 8), (8, 5), (5, 7), (7, 6), (6, 2))]
    first, second = (torch.randn(4, 3, dtype=torch.float64).requires_grad_() for _ in range(2))
    second.data.copy_(first.data)
    x = first
    for layer in layers[:-1]:
        x = layer(x).relu()
    weights = [one for layer in layers for one in layer.parameters()]
    plain = torch.autograd.grad(layers[-1](x).square().sum(), [first, *weights])
    scan = torch.autograd.grad(space["scanned"](layers, second).square().sum(), [second, *weights])
    for one, other in zip(plain, scan, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)


def test_edits_of_scripts_here_still_fit():
    from leaner_cases import CASES
    from leaner_rows import edited

    own = [one for one in CASES if not one.public]
    assert {one.whatif for one in own} >= {"serialize", "scan_backward", "hot_embeddings", "stale_embeddings"}
    for case in own:
        folder = (ROOT / case.script).parent
        plain = edited(folder, case.settings)
        changed = edited(folder, case.edits, tuple(plain.items()))
        for path, text in changed.items():
            compile(text.replace("{parts}", "4"), path, "exec")
        assert not case.edits or changed != plain


def test_an_edit_that_no_longer_fits_is_an_error(tmp_path):
    from leaner_rows import edited

    tmp_path.joinpath("train.py").write_text("a = 1\na = 1\n", encoding="utf-8")
    for old, times in (("a = 1", 2), ("b", 0)):
        with pytest.raises(ValueError, match=f"is there {times} times"):
            edited(tmp_path, [("train.py", old, "c")])


LOOKUPS = """
import torch
table = torch.nn.Embedding(8192, 64)
step = torch.optim.SGD([table.weight], lr=1.0)
for number in range(1000):
    step.zero_grad()
    # Three of four lookups go to one row, which a step moves; the others have a gradient of zero.
    rows = torch.tensor([7, 7, 7, 100 + number])
    (table(rows) * torch.tensor([1.0, 1.0, 1.0, 0.0])[:, None]).sum().backward()
    step.step()
"""


def test_later_lookups_count_hot_and_steady_rows(tmp_path):
    script, out = tmp_path / "train.py", tmp_path / "shares.json"
    script.write_text(LOOKUPS, encoding="utf-8")
    program = ROOT / "benchmarks" / "later_lookups.py"
    subprocess.run(
        [sys.executable, str(program), str(out), "4", "8", "2", "0.000256", "0.001", str(script)], check=True
    )
    shares = json.loads(out.read_text(encoding="utf-8"))
    assert shares["hot"] == shares["first"] == shares["second"] == 0.75
    assert shares["steady"] == 0.5
    assert shares["bytes"] == 8192 * 64 * 4


SETTLING = """
import torch
table = torch.nn.Embedding(8192, 64)
torch.nn.init.ones_(table.weight)
step = torch.optim.SGD([table.weight], lr=1.0)
for number in range(1000):
    step.zero_grad()
    # The row moves by its whole norm in steps 0 to 6, and not at all from then on.
    (table(torch.tensor([7])) * float(number < 7)).sum().backward()
    step.step()
"""


def test_steady_rows_are_told_right_behind_the_profile_and_at_the_end(tmp_path):
    script, out = tmp_path / "train.py", tmp_path / "shares.json"
    script.write_text(SETTLING, encoding="utf-8")
    program = ROOT / "benchmarks" / "later_lookups.py"
    command = [sys.executable, str(program), str(out), "4", "8", "3", "1", "0.001", str(script)]
    subprocess.run(command, check=True)
    shares = json.loads(out.read_text(encoding="utf-8"))
    assert (shares["steady"], shares["steady_later"]) == (0.0, 1.0)


def test_a_share_of_nothing_has_an_error():
    from leaner_rows import ROWS, error
    from whatifs import Row, Said

    from skyline.interval import Interval

    said = Said(("stale_embeddings=0.001",), 0.25, 0.0, 1.0, 1.0, 0.0, f"{ROWS}: 8 iterations")
    assert error(Row("a.py", said, Interval.exact(0.0), Interval.exact(1.0), None)) == 0.25
    timed = Said(("serialize",), 0.5, 0.4, 0.6, 1.0, 0.0, "modelled")
    assert error(Row("a.py", timed, Interval.exact(2.0), Interval.exact(1.0), None)) == -0.75
