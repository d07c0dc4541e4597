"""Profiles of little scripts, and the plans for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from skyline.errors import UsageError
from skyline.rewrite.plan import RewritePlan, plan
from skyline.source.batch_size import find
from skyline.source.text import SourceText
from skyline.trace.facts import LoaderFact, OptimizerFact
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine
from skyline.whatif.baseline import Baseline, baseline
from skyline.whatif.question import Choice, Question

SCRIPT = "/project/train.py"


@dataclass(frozen=True)
class Analysed:
    """What a plan needs of an analysis."""

    profile: Profile

    @property
    def baseline(self) -> Baseline:
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
        return self.read(SCRIPT).apply(edit for edit in planned.edits if edit.span.file == SCRIPT).text

    def reason(self, *choices: str, batch_size: int | None = None) -> str:
        """Why the one part of the question is refused; nothing may be edited then."""
        planned = self.plan(*choices, batch_size=batch_size)
        assert planned.edits == ()
        assert len(planned.refused) == 1
        return planned.refused[0].reason


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
