"""The batch-size curve with other changes made."""

from __future__ import annotations

import pytest

from skyline.analysis.analyse import Analysis, analyse
from skyline.analysis.estimate import curve_under, estimate
from skyline.errors import UsageError
from skyline.whatif.question import Choice, Question


@pytest.fixture
def analysis(profile) -> Analysis:
    return analyse(profile)


def test_without_changes_it_is_the_curve_of_the_script(analysis) -> None:
    assert len(analysis.curve) > 3
    assert curve_under(analysis, ()) == analysis.curve
    assert curve_under(analysis, (Choice("batch_size", "64"),)) == analysis.curve


def test_every_point_is_the_answer_to_its_question(analysis) -> None:
    fused = Choice("fused_optimizer")
    points = curve_under(analysis, (fused,))
    assert {point.batch_size for point in points} >= {point.batch_size for point in analysis.curve}
    base = analysis.baseline.curve.base
    for point in points:
        size = None if point.batch_size == base else point.batch_size
        answer = estimate(analysis, Question(size, (fused,)))
        assert point.iteration_ms == answer.iteration_ms
        assert point.throughput == answer.throughput
        assert not point.measured
        assert point.throughput.low < point.throughput.value < point.throughput.high
    as_is = {point.batch_size: point.throughput.value for point in analysis.curve}
    assert all(point.throughput.value > as_is.get(point.batch_size, 0.0) for point in points)


def test_a_change_that_does_not_exist_is_refused(analysis) -> None:
    with pytest.raises(UsageError, match="nonsense"):
        curve_under(analysis, (Choice("nonsense"),))
