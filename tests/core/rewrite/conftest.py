"""Profiles of little scripts, and the plans for them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from skyline.errors import UsageError
from skyline.rewrite.context import RewriteContext
from skyline.rewrite.joint_edits import RewritePlan, plan
from skyline.rewrite.registry import entries
from skyline.rewrite.removal import present, taken_out
from skyline.source.batch_size import find
from skyline.source.text import SourceText
from skyline.trace.facts import LoaderFact, OptimizerFact
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine
from skyline.whatif.baseline import baseline
from skyline.whatif.question import Choice, Question
from skyline.whatif.subject import Subject

SCRIPT = "/project/train.py"
FORKS = """
import importlib, json, os, runpy, sys

jobs, imported = map(json.loads, sys.argv[1:])
for name in imported:
    importlib.import_module(name)
for folder, printed, variables in jobs:
    if os.fork() == 0:
        os.chdir(folder)
        os.environ.update(variables)
        os.dup2(os.open(printed, os.O_WRONLY | os.O_CREAT), 1)
        runpy.run_path("train.py", run_name="__main__")
        sys.exit()
sys.exit(any([os.wait()[1] for _ in jobs]))
"""
"""Runs each script in a fork of one process that has imported PyTorch, in its folder and with its variables."""


@dataclass(frozen=True)
class Analysed:
    """The part of an analysis that a plan needs."""

    profile: Profile

    @property
    def baseline(self) -> Subject:
        return baseline(self.profile)


@dataclass(frozen=True)
class Workshop:
    """One script, its profile, and what is asked of both."""

    profile: Profile
    files: dict[str, str]

    def read(self, path: str) -> SourceText:
        if path not in self.files:
            raise UsageError(f"{path} does not exist")
        return SourceText.of(path, self.files[path])

    def plan(self, *choices: str, batch_size: int | None = None) -> RewritePlan:
        question = Question(batch_size, tuple(Choice.parse(choice) for choice in choices))
        return plan(Analysed(self.profile), question, self.read)

    def edited(self, *choices: str, batch_size: int | None = None) -> str:
        """The script as the plan makes it; every part of the question must have been taken."""
        planned = self.plan(*choices, batch_size=batch_size)
        assert planned.refused == ()
        if len(choices) == 1 and batch_size is None:
            self.check_inverse(choices[0].partition("=")[0], planned)
        return self.after(planned).files[SCRIPT]

    def after(self, planned: RewritePlan) -> Workshop:
        """The files as a plan makes them; the profile is still the one from before."""
        files = dict(self.files)
        for path in {edit.span.file for edit in planned.edits}:
            files[path] = self.read(path).apply(edit for edit in planned.edits if edit.span.file == path).text
        return replace(self, files=files)

    def context(self) -> RewriteContext:
        return RewriteContext(self.profile, self.read)

    def present(self, name: str) -> str | None:
        return present(self.context(), name)

    def without(self, *names: str) -> RewritePlan:
        """The plan that takes what-ifs out of the code."""
        return taken_out(self.context(), names)

    def check_inverse(self, name: str, planned: RewritePlan) -> None:
        """A rewrite's change is found, and taken out again: byte for byte where nothing was overwritten."""
        entry = entries().get(name)
        if entry is None or entry.remove is None or not planned.edits or self.present(name) is not None:
            return
        made = self.after(planned)
        assert made.present(name) is not None, f"{name} is not found in\n{made.files[SCRIPT]}"
        back = made.without(name)
        if any(edit.old_text.strip() for edit in planned.edits):
            return  # what was overwritten is not known any more: see test_removal.py
        if name == "cuda_graphs" and self.present("compile") is not None:
            return  # the compiling that brings the graphs goes with them
        assert back.refused == ()
        for path, text in made.after(back).files.items():
            assert _comparable(text) == _comparable(self.files[path])

    def reason(self, *choices: str, batch_size: int | None = None) -> str:
        """Why the one part of the question is refused; nothing may be edited then."""
        planned = self.plan(*choices, batch_size=batch_size)
        assert planned.edits == ()
        assert len(planned.refused) == 1
        return planned.refused[0].reason


def _comparable(text: str) -> str:
    """A text without two things of unknown origin when a change is taken out.

    They are a lone ``import torch`` that nothing else uses, and the comma that a rewrite writes before the comment of
    the last argument. Either may have been there before.
    """
    return text.replace("import torch\n", "", 1).replace(",  #", "  #")


@pytest.fixture
def workshop(profile: Profile) -> Callable[..., Workshop]:
    def make(
        source: str,
        *,
        loader_line: int | None = None,
        optimizers: tuple[tuple[str, int | None], ...] = (),
        arguments: tuple[str, ...] = (),
        others: dict[str, str] | None = None,
    ) -> Workshop:
        files = {SCRIPT: source, **{f"/project/{name}": text for name, text in (others or {}).items()}}
        text = SourceText.of(SCRIPT, source)
        knobs = find(
            text,
            arguments,
            lambda path: SourceText.of(str(path), files[str(path)]) if str(path) in files else None,
        )
        place = CodeLine(SCRIPT, loader_line) if loader_line else None
        made = replace(
            profile,
            sources=(SourceFile(SCRIPT, "", text.text),),
            arguments=arguments,
            knobs=knobs,
            loaders=(LoaderFact(16, 0, 1000, 1.0, created_line=place),),
            optimizers=tuple(
                OptimizerFact(name, 1, 4, 100, 0, {}, None, CodeLine(SCRIPT, line) if line else None)
                for name, line in optimizers
            ),
        )
        return Workshop(made, files)

    return make


@pytest.fixture
def train_in_forks(brief_start: None) -> Callable[..., None]:
    """Runs ``train.py`` of several folders side by side, each with a file for its output and variables of its own."""

    def train(jobs: Sequence[tuple[Path, Path, dict[str, str]]], *imported: str) -> None:
        told = [(str(folder), str(printed), variables) for folder, printed, variables in jobs]
        words = [json.dumps(told), json.dumps(["torch", *imported])]
        done = subprocess.run(
            [sys.executable, "-c", FORKS, *words], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr

    return train
