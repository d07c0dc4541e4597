from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from skyline.capture.request import CaptureRequest
from skyline.capture.session import capture
from skyline.capture.warm_pool import WarmPool
from skyline.cli.main import main
from skyline.source.text import SourceSpan
from skyline.trace import store
from skyline.trace.profile import Profile, SourceFile
from skyline.trace.record import CodeLine
from skyline.verification.measure import Effort


@dataclass(frozen=True, slots=True)
class Ran:
    """Output and exit status of a command."""

    code: int
    out: str
    err: str


class Lent(WarmPool):
    """The resident process of all commands, which outlives each of them."""

    def close(self) -> None: ...


@pytest.fixture(autouse=True)
def brief_runs(resident: WarmPool, brief_start: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands fork their runs from one process for all tests, and measure them briefly."""

    def brief(request: CaptureRequest, **options: Any) -> Profile:
        request = replace(request, settle_s=0.1, trials=False)
        return capture(request, **options)

    lent = Lent()
    lent.start = resident.start  # type: ignore[method-assign]
    monkeypatch.setattr("skyline.capture.warm_pool.WarmPool", lambda: lent)
    monkeypatch.setattr("skyline.capture.session.capture", brief)
    monkeypatch.setattr("skyline.capture.batch_trials._MOST_ROUNDS", 3)
    Effort()  # compiles its methods
    rounds, minutes, _ = Effort.__init__.__defaults__ or ()
    monkeypatch.setattr(Effort.__init__, "__defaults__", (rounds, minutes, 0.05))


@pytest.fixture
def skyline(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    """Runs a command in an empty folder, with an empty cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Ran:
        capfd.readouterr()
        code = main(arguments)
        out, err = capfd.readouterr()
        return Ran(code, out, err)

    return run


@pytest.fixture
def script(tmp_path: Path, profile: Profile) -> Path:
    """The script of the hand-made profile, as a file."""
    path = tmp_path / "train.py"
    path.write_text(profile.sources[0].text, encoding="utf-8")
    return path


@pytest.fixture
def saved(script: Path, profile: Profile) -> Path:
    """The hand-made profile, saved as if it had been made of ``script``."""

    def line(line: CodeLine) -> CodeLine:
        return replace(line, file=str(script))

    def span(span: SourceSpan) -> SourceSpan:
        return replace(span, file=str(script))

    knobs = tuple(replace(knob, span=span(knob.span)) for knob in profile.knobs.candidates)
    optimizers = tuple(
        replace(
            o,
            step_line=o.step_line and line(o.step_line),
            created_line=o.created_line and line(o.created_line),
        )
        for o in profile.optimizers
    )
    loaders = tuple(replace(o, created_line=o.created_line and line(o.created_line)) for o in profile.loaders)
    moved = replace(
        profile,
        script=str(script),
        sources=tuple(replace(source, path=str(script)) for source in profile.sources),
        trace=replace(profile.trace, lines=tuple(line(one) for one in profile.trace.lines)),
        knobs=replace(profile.knobs, candidates=knobs),
        optimizers=optimizers,
        loaders=loaders,
        loop_line=line(profile.loop_line) if profile.loop_line else None,
    )
    assert isinstance(moved.sources[0], SourceFile)
    return store.save(moved)
