"""Passes that gain by an optimizer's step that moves less memory in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.graph.selection import select
from skyline.trace.record import Phase
from skyline.whatif.baseline import baseline
from skyline.whatif.cost.streaming import STREAMS_FROM_BYTES, US_PER_MB, relieved

PASSES = (Phase.FORWARD, Phase.BACKWARD)


def of_size(profile, held_bytes: float):
    """The script with a model whose parameters, gradients and state are so large."""
    start = baseline(profile)
    peak = start.peak
    third = int(held_bytes / 3)
    return replace(start, peak=replace(peak, parameters=third, gradients=third, optimizer=third))


def passes_us(start, graph) -> float:
    return float(graph.durations[select(graph, phase=PASSES)].sum()) / start.steps


def test_the_passes_of_a_large_model_gain_by_the_megabyte(profile):
    start = of_size(profile, 2 * STREAMS_FROM_BYTES)
    before = passes_us(start, start.outline)
    gained = before - passes_us(start, relieved(start, start.outline, 20e6))
    assert gained == pytest.approx(20 * US_PER_MB.value, rel=1e-6)
    most = before - passes_us(start, relieved(start, start.outline, 20e6, end="high"))
    assert most > gained
    lost = before - passes_us(start, relieved(start, start.outline, -20e6))
    assert lost == pytest.approx(-gained)


def test_nobody_gains_more_than_was_seen(profile):
    start = of_size(profile, 2 * STREAMS_FROM_BYTES)
    ratio = passes_us(start, relieved(start, start.outline, 1e12)) / passes_us(start, start.outline)
    assert ratio == pytest.approx(0.9)


def test_a_small_model_and_other_phases_stay_as_they_are(profile):
    small = of_size(profile, 0.5 * STREAMS_FROM_BYTES)
    assert relieved(small, small.outline, 20e6) is small.outline
    large = of_size(profile, 2 * STREAMS_FROM_BYTES)
    after = relieved(large, large.outline, 20e6)
    others = select(after, phase=(Phase.OPTIMIZER, Phase.DATA))
    assert (after.durations[others] == large.outline.durations[others]).all()
