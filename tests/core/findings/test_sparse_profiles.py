"""Data that a rule needs may be missing: then it reports nothing, and nothing breaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.findings.registry import find
from skyline.trace.facts import (
    BatchFact,
    CallFact,
    LoaderFact,
    MemoryFact,
    ModuleFact,
    OptimizerFact,
    ParallelFact,
    SideEffect,
    TorchSettings,
)
from skyline.trace.record import BareTimes
from skyline.whatif.baseline import baseline

NOTHING = MemoryFact(0, 0, 0, 0)


def without_places(profile):
    records = tuple(replace(one, line=-1, call_line=-1, module=-1) for one in profile.trace.records)
    return replace(profile, trace=replace(profile.trace, records=records, lines=()), loop_line=None)


def of_one_iteration(profile):
    records = tuple(one for one in profile.trace.records if one.iteration == 0)
    trace = replace(profile.trace, records=records, iterations=profile.trace.iterations[:1], allocations=())
    return replace(profile, trace=trace, recorded_ms=profile.recorded_ms[:1])


def told_without_lines(profile):
    calls = tuple(
        CallFact(name, 1.0)
        for name in ("to", "item", "print", "backward", "eval forward", "compile", "graph break")
    )
    return replace(
        profile,
        calls=calls,
        side_effects=(SideEffect("file", "x", "redirected"),),
        loaders=(LoaderFact(None, 3, None, 0.0),),
        optimizers=(OptimizerFact("Adam", 1, 0, 0, 0, {}),),
        modules=(ModuleFact("Net", "Net", False, 0, False, {}),),
        parallel=ParallelFact("DistributedDataParallel", "", 2, None, None, None, None),
        settings=TorchSettings(),
    )


VARIATIONS = {
    "places": without_places,
    "iterations": of_one_iteration,
    "lines of calls": told_without_lines,
    "memory": lambda profile: replace(profile, memory=NOTHING, peak_bytes=0),
    "batch": lambda profile: replace(profile, batch=BatchFact((), None), batch_size=None, trials=()),
    "parts": lambda profile: replace(profile, times=BareTimes((10.0,), (0.0,), (0.0,), (0.0,))),
    "optimizers and loaders": lambda profile: replace(profile, optimizers=(), loaders=()),
}


@pytest.mark.parametrize("missing", VARIATIONS)
@pytest.mark.parametrize("kind", ["profile", "gpu_profile"])
def test_what_is_missing_breaks_nothing(kind, missing, request):
    given = VARIATIONS[missing](request.getfixturevalue(kind))
    for finding in find(baseline(given)):
        assert finding.cost_ms >= 0
        assert finding.title
        assert bool(finding.file) == bool(finding.line)
