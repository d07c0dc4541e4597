"""What-ifs and rewrites of other packages are found, and one that fails stops nobody."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from skyline.cli.main import main
from skyline.errors import RewriteRefused, UsageError
from skyline.rewrite import registry as rewrites
from skyline.trace.facts import ModuleFact, OptimizerFact
from skyline.trace.profile import SourceFile
from skyline.trace.store import save
from skyline.whatif import registry
from skyline.whatif.base import Scenario
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice

EXAMPLE = Path(__file__).parents[2] / "data" / "example_plugin"
SCRIPT = """\
import torch
from torch import nn
model = nn.Sequential()
model.table = nn.Embedding(1000, 16)
optimizer = torch.optim.Adam(model.parameters())
for batch in range(9):
    optimizer.step()
"""
GOOD = """\
from dataclasses import dataclass
from skyline.whatif.base import Applicability, Grain, Semantics, Stage

@dataclass(frozen=True)
class Change:
    name: str
    semantics: object = Semantics.EXACT
    stage: object = Stage.WAITING
    grain: object = Grain.PHASES
    excludes: tuple = ()

    def title(self, value):
        raise ValueError("no words")

    def detect(self, subject):
        if self.name == "undecided":
            return None
        return Applicability(True) if self.name != "blind" else 1 / 0

    def transform(self, scenario, value, subject):
        if self.name == "crashing":
            raise KeyError("no such lane")
        return scenario if self.name == "fine" else None

FINE, BLIND, CRASHING, EMPTY = Change("fine"), Change("blind"), Change("crashing"), Change("empty")
UNDECIDED = Change("undecided")
TAKEN, UNNAMED, WITHOUT_STAGE = Change("amp"), Change("not a name"), Change("stray", stage=3)
"""
ENTRIES = """\
[skyline.whatifs]
fine = outsiders:FINE
blind = outsiders:BLIND
crashing = outsiders:CRASHING
empty = outsiders:EMPTY
undecided = outsiders:UNDECIDED
taken = outsiders:TAKEN
unnamed = outsiders:UNNAMED
stray = outsiders:WITHOUT_STAGE
missing = outsiders:NOWHERE
gone = no_such_package:WHATIF
leaving = leaving:WHATIF
[skyline.rewrites]
broken = outsider_rewrite
taken = outsider_taken
nothing = outsiders
"""


@pytest.fixture
def outsiders(tmp_path, monkeypatch):
    """A further package, with working entry points and with broken ones of every kind."""
    info = tmp_path / "outsiders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outsiders\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "outsiders.py").write_text(GOOD)
    (tmp_path / "leaving.py").write_text("raise SystemExit('not today')\n")
    (tmp_path / "outsider_rewrite.py").write_text(
        "NAME = 'fine'\ndef rewrite(context, value):\n    return context.no_such_thing\n"
    )
    (tmp_path / "outsider_taken.py").write_text("NAME = 'amp'\ndef rewrite(context, value):\n    return ()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    _forget()
    yield
    for name in ("outsiders", "leaving", "outsider_rewrite", "outsider_taken"):
        sys.modules.pop(name, None)
    monkeypatch.undo()
    _forget()


def _forget():
    registry._found.cache_clear()
    rewrites._found.cache_clear()


def test_what_works_is_found_and_what_does_not_is_named(outsiders):
    known = registry.whatifs()
    assert {"fine", "blind", "crashing", "empty", "undecided", "amp", "batch_size"} <= set(known)
    assert type(known["amp"]).__module__.startswith("skyline.whatif.catalogue")
    said = "\n".join(registry.problems())
    assert len(registry.problems()) == 6
    assert "taken (from outsiders) is left out: there is a what-if 'amp' already" in said
    assert "unnamed (from outsiders) is left out: its `name` is not an identifier" in said
    assert "stray (from outsiders) is left out: its `stage` is not a Stage" in said
    assert "missing (from outsiders) cannot be loaded: AttributeError" in said
    assert "gone (from outsiders) cannot be loaded: ModuleNotFoundError" in said
    assert "leaving (from outsiders) cannot be loaded: SystemExit: not today" in said


def test_a_question_about_a_named_change_does_not_look_for_others(outsiders, profile, tmp_path, capsys):
    saved = str(save(replace(profile, script=str(tmp_path / "train.py"))))
    assert main(("whatif", saved, "fused_optimizer")) == 0
    assert not registry._found.cache_info().currsize
    assert "left out" not in capsys.readouterr().err
    assert main(("whatif", saved)) == 0
    assert "taken (from outsiders) is left out" in capsys.readouterr().err


def test_what_fails_later_is_told_as_an_answer(outsiders, profile):
    start = baseline(profile)
    known = registry.whatifs()
    assert (
        known["blind"].detect(start).reason
        == "blind (from outsiders) failed: ZeroDivisionError: division by zero"
    )
    assert "returned no Applicability" in known["undecided"].detect(start).reason
    together = compose(start, [Choice(name) for name in ("fine", "crashing", "empty", "fused_optimizer")])
    assert "crashing: crashing (from outsiders) failed: KeyError" in together.reason or (
        "crashing (from outsiders) failed: KeyError" in together.reason
    )
    assert "it returned no Scenario" in together.reason
    alone = compose(start, [Choice("fused_optimizer")])
    assert start.step_ms(together.scenario.graph) == pytest.approx(start.step_ms(alone.scenario.graph))
    assert "fine" in together.title
    assert isinstance(known["fine"].transform(Scenario.of(start), "", start), Scenario)
    with pytest.raises(UsageError, match="no what-if 'stray'"):
        registry.whatif_named("stray")


def test_rewrites_of_others_are_guarded_too(outsiders):
    found = rewrites.entries()
    with pytest.raises(RewriteRefused, match=r"broken \(from outsiders\) failed: AttributeError"):
        found["fine"].rewrite(object(), "")  # pyright: ignore[reportArgumentType]
    said = "\n".join(rewrites.problems())
    assert "nothing (from outsiders) is left out: a module with NAME" in said
    assert "taken (from outsiders) is left out: there is a rewrite of that name already" in said


@pytest.fixture(scope="session")
def installed_example(tmp_path_factory):
    """The example package, installed by pip into a folder of its own, without a network."""
    source, target = tmp_path_factory.mktemp("source") / "example", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, source)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
    ]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "No module named pip" in done.stderr:
        pytest.skip("this environment has no pip")
    assert done.returncode == 0, done.stderr
    return target


def test_the_example_answers_and_edits_once_it_is_installed(installed_example, profile, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    table = ModuleFact("Sequential.table", "Embedding", True, 16_000, True, {"num_embeddings": 1000})
    made = replace(
        profile,
        script=str(script),
        working_directory=str(tmp_path),
        sources=(SourceFile(str(script), "", SCRIPT),),
        modules=(table,),
        optimizers=(OptimizerFact("Adam", 1, 2, 20_000, 160_000, {}),),
        loaders=(),
    )
    saved = save(made)

    def skyline(*arguments):
        environment = {**os.environ, "PYTHONPATH": str(installed_example)}
        command = [sys.executable, "-m", "skyline", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)

    asked = skyline("whatif", str(saved), "freeze_embedding", "--json", "-")
    assert asked.returncode == 0, asked.stderr
    answer = next(one for one in json.loads(asked.stdout)["estimates"] if one["name"] == "freeze_embedding")
    assert answer["applicable"]
    assert answer["semantics"] == "convergence"
    assert answer["provenance"] == "modelled"
    # Four fifths of the parameters are the table's, and so of the optimizer's 2 ms.
    assert answer["change_ms"]["value"] == pytest.approx(-2.0 * 0.8, rel=0.02)
    edited = skyline("apply", str(script), "freeze_embedding", "--diff")
    assert edited.returncode == 0, edited.stderr
    assert "+model.table.requires_grad_(False)" in edited.stdout
