"""The curve over batch sizes of code that an undo brings back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from skyline.predict.batch_curve import NOTE
from skyline.trace.store import load
from skyline.trace.trial import batch_trials
from skyline_lsp.profiler import Profiler
from skyline_lsp.state import ScriptState, prepare

NOBODY = cast(Any, SimpleNamespace())
PROFILE = load(Path(__file__).parents[1] / "data" / "linear.profile.json.gz")


def test_the_first_figures_after_an_undo_keep_the_curve_of_the_same_code() -> None:
    state = ScriptState("file:///train.py", "/train.py")
    state.accept(prepare(PROFILE))
    source = PROFILE.sources[0]
    changed = replace(PROFILE, sources=(replace(source, text=source.text + "# fused\n"),))

    first = Profiler._early(NOBODY, state, replace(changed, trials=()))
    assert not batch_trials(first.profile.trials), "another code has another curve"
    state.accept(first)
    state.accept(prepare(changed))
    assert state.former is PROFILE

    undone = Profiler._early(NOBODY, state, replace(PROFILE, trials=()))
    assert batch_trials(undone.profile.trials)
    assert NOTE in undone.profile.notes
    state.clear()
    assert state.former is None
