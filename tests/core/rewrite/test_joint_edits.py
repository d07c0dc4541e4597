"""Several changes go together, or are refused one by one."""

from __future__ import annotations

import ast
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.analysis.analyse import analyse
from skyline.errors import RewriteRefused
from skyline.rewrite.argument import add_keyword
from skyline.rewrite.joint_edits import diff, plan
from skyline.rewrite.registry import entries
from skyline.source.text import SourceText, parse
from skyline.trace.profile import Profile
from skyline.trace.record import CodeLine
from skyline.whatif.question import Choice, Question
from skyline.whatif.registry import whatifs

SOURCE = """\
import torch
loader = DataLoader(
    data,
    batch_size=16
)
optimizer = torch.optim.Adam(model.parameters())
"""
AFTER = """\
import torch
loader = DataLoader(
    data,
    batch_size=64,
    num_workers=2
)
optimizer = torch.optim.Adam(model.parameters(), fused=True)
"""


def test_three_changes_at_once(workshop) -> None:
    shop = workshop(SOURCE, loader_line=2, optimizers=(("Adam", 6),))
    assert shop.edited("num_workers=2", "fused_optimizer", batch_size=64) == AFTER
    assert shop.edited("fused_optimizer", "num_workers=2", batch_size=64) == AFTER


def test_a_refused_part_leaves_the_others(workshop) -> None:
    shop = workshop(SOURCE, loader_line=2, optimizers=(("Adam", 6),))
    planned = shop.plan("num_workers=x", "fused_optimizer", "torch_compile")
    assert [edit.new_text for edit in planned.edits] == [", fused=True"]
    assert [refused.name for refused in planned.refused] == ["num_workers", "torch_compile"]
    assert "no rewrite" in planned.refused[1].reason


def test_gradients_are_freed_and_accumulated(workshop) -> None:
    loop = (
        "import torch\nmodel = torch.nn.Linear(8, 4)\noptimizer = torch.optim.SGD(model.parameters(), lr=1)\n"
        "for x, y in loader:\n    loss = torch.nn.functional.cross_entropy(model(x), y)\n"
        "    optimizer.zero_grad(set_to_none=False)\n    loss.backward()\n    optimizer.step()\n"
    )
    shop = workshop(loop)
    edited = shop.edited("grad_accumulation=2", "zero_grad")
    assert "    optimizer.zero_grad()\n" in edited
    assert "x.chunk(2)" in edited


def test_one_literal_cannot_take_two_values(workshop) -> None:
    shop = workshop("N = 16\nloader = DataLoader(d, batch_size=N, num_workers=N)\n", loader_line=2)
    planned = shop.plan("num_workers=2", batch_size=64)
    assert planned.edits == ()
    assert "also sets" in planned.refused[0].reason
    assert "more than num_workers" in planned.refused[1].reason


def test_changes_of_the_same_text_are_refused(workshop) -> None:
    shop = workshop(SOURCE, loader_line=2)
    planned = shop.plan("num_workers=2", "batch_size=32", batch_size=64)
    assert [edit.new_text for edit in planned.edits] == ["64,\n    num_workers=2"]
    assert [(refused.name, "twice" in refused.reason) for refused in planned.refused] == [
        ("batch_size", True)
    ]


def test_without_a_value_the_predicted_one_is_written(profile: Profile) -> None:
    analysis = analyse(profile)
    text = SourceText.of(profile.script, profile.sources[0].text)
    default = whatifs()["num_workers"].detect(analysis.baseline).default
    planned = plan(analysis, Question(32, (Choice("num_workers"),)), lambda path: text)
    changed = text.apply(planned.edits).text
    assert f"DataLoader(data, batch_size=32, num_workers={default})" in changed


def test_every_rewrite_of_an_iteration_belongs_to_a_whatif() -> None:
    assert set(entries()) >= {"batch_size", "num_workers", "fused_optimizer"}
    # Saving less often changes no iteration, and shards are planned: rewrites without a what-if.
    assert set(entries()) <= set(whatifs()) | {"checkpoint_every", "fsdp"}


@pytest.mark.parametrize("source", [SOURCE, SOURCE.replace("\n", "\r\n"), SOURCE.rstrip("\n")])
def test_the_diff_is_one_that_patches(workshop, tmp_path: Path, source: str) -> None:
    shop = workshop(source, loader_line=2, optimizers=(("Adam", 6),))
    planned = shop.plan("num_workers=2", "fused_optimizer", batch_size=64)
    patch = diff(planned, shop.read)
    assert patch.startswith("--- a/project/train.py\n+++ b/project/train.py\n")
    assert diff(planned, shop.read, "/project").startswith("--- a/train.py\n+++ b/train.py\n")
    (tmp_path / "project").mkdir()
    file = tmp_path / "project" / "train.py"
    file.write_bytes(source.encode())
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=tmp_path,
        input=patch.encode(),
        check=True,
        timeout=60,
    )
    assert file.read_bytes() == shop.edited("num_workers=2", "fused_optimizer", batch_size=64).encode()


def test_a_link_and_its_file_are_one_text(workshop, tmp_path: Path) -> None:
    file, link = tmp_path / "train.py", tmp_path / "link.py"
    file.write_text(SOURCE)
    link.symlink_to(file)
    shop = workshop(SOURCE, loader_line=2)
    knob = shop.profile.knobs.best
    assert knob is not None
    place = replace(shop.profile.loaders[0], created_line=CodeLine(str(file), 2))
    knobs = replace(shop.profile.knobs, candidates=(replace(knob, span=replace(knob.span, file=str(link))),))
    profile = replace(shop.profile, script=str(link), knobs=knobs, loaders=(place,))
    shop = replace(shop, profile=profile, files={str(link): SOURCE, str(file): SOURCE})
    planned = shop.plan("num_workers=2", batch_size=64)
    assert {edit.span.file for edit in planned.edits} == {str(link)}
    assert [edit.new_text for edit in planned.edits] == ["64,\n    num_workers=2"]


def test_an_empty_plan_has_an_empty_diff(workshop) -> None:
    shop = workshop(SOURCE)
    assert diff(shop.plan(), shop.read) == ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(x)", "f(x, a=1, b=2)"),
        ("f(x,)", "f(x, a=1, b=2,)"),
        ("f(**k)", "f(a=1, b=2, **k)"),
        ("f(\n  x,\n)", "f(\n  x,\n  a=1,\n  b=2,\n)"),
        ("f(\n  x\n)", "f(\n  x,\n  a=1,\n  b=2\n)"),
        ("f(\n  x  # why\n)", "f(\n  x,  # why\n  a=1,\n  b=2,\n)"),
        ("f(\n  x,  # why\n)", "f(\n  x,  # why\n  a=1,\n  b=2,\n)"),
        ("f(\n  **k,\n)", "f(\n  a=1,\n  b=2,\n  **k,\n)"),
        ("f(*x)(y)(z)", "f(*x)(y)(z, a=1, b=2)"),
        ("(f)(x)", "(f)(x, a=1, b=2)"),
        ("f('(', ')')", "f('(', ')', a=1, b=2)"),
        ("f('''\n(,\n''')", "f('''\n(,\n''', a=1, b=2)"),
        ("f(x \\\n )", "f(x,\na=1,\nb=2 \\\n )"),
    ],
)
def test_additions_to_one_call_go_together(before: str, after: str) -> None:
    text = SourceText.of("x.py", before)
    statement = parse(text).body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    edits = [*add_keyword(text, statement.value, "a=1"), *add_keyword(text, statement.value, "b=2")]
    changed = text.apply(dict.fromkeys(edits))
    compile(changed.text, "x.py", "exec", dont_inherit=True)
    assert changed.text == after


@pytest.mark.parametrize("source", ["f()", "f(x for x in y)"])
def test_calls_without_room_are_refused(source: str) -> None:
    text = SourceText.of("x.py", source)
    statement = parse(text).body[0]
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    with pytest.raises(RewriteRefused):
        add_keyword(text, statement.value, "a=1")
