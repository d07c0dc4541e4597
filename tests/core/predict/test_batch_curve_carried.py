"""The curve outlives a change of the batch size, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.predict.batch_curve import NOTE, batch_curve, with_carried_curve
from skyline.trace.profile import Profile


def at_size(profile: Profile, size: int) -> Profile:
    """The same script with another batch size written in it, measured without a curve."""
    knob = profile.knobs.best
    assert knob is not None
    written = str(size)
    source = profile.sources[0]
    text = source.text.replace(f"batch_size={knob.text}", f"batch_size={written}")
    span = replace(knob.span, end_column=knob.span.column + len(written))
    moved = replace(profile.knobs, candidates=(replace(knob, value=size, text=written, span=span),))
    return replace(profile, batch_size=size, knobs=moved, sources=(replace(source, text=text),), trials=())


def test_ratios_are_to_the_new_batch_size(profile: Profile) -> None:
    before = profile
    old = batch_curve(before)
    size = old.points[-1].batch_size
    carried = with_carried_curve(at_size(before, size), before)
    new = batch_curve(carried)

    assert NOTE in carried.notes
    assert {point.batch_size for point in new.points} == {point.batch_size for point in old.points}
    for point in old.points:
        expected = old.ratio(point.batch_size).value / old.ratio(size).value
        assert new.ratio(point.batch_size).value == pytest.approx(expected)


def test_any_other_change_of_the_source_ends_the_curve(profile: Profile) -> None:
    before = profile
    now = at_size(before, 32)
    edited = replace(now, sources=(replace(now.sources[0], text=now.sources[0].text + "# more\n"),))

    assert with_carried_curve(edited, before) is edited
    assert with_carried_curve(now, None) is now
    assert with_carried_curve(replace(now, arguments=("--quick",)), before).trials == ()


def test_a_curve_of_its_own_is_kept(profile: Profile) -> None:
    before = profile
    assert with_carried_curve(before, before) is before
