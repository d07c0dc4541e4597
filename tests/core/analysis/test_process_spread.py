"""The difference between two processes of a script in the ranges of answers, which are of another process."""

from __future__ import annotations

from dataclasses import replace
from math import hypot

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import beyond_model, curve_under, estimate
from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.trace.profile import Prediction
from skyline.whatif.question import Choice, Question
from skyline.whatif.subject import BETWEEN_PROCESSES, process_spread

FUSED = Choice("fused_optimizer")
THREADS = Choice("cpu_threads", "4")


@pytest.fixture
def analysis(profile):
    return analyse(profile)


def asked(analysis, *choices, size=None):
    return estimate(analysis, Question(size, choices))


@pytest.fixture
def without(monkeypatch):
    """Answers as if two processes never differed, and models had all causes in them."""

    def answer(analysis, *choices, size=None):
        with monkeypatch.context() as patched:
            patched.setattr("skyline.analysis.estimate.process_spread", lambda subject: 0.0)
            patched.setattr("skyline.analysis.estimate.beyond_model", lambda *_: 0.0)
            return asked(analysis, *choices, size=size)

    return answer


@pytest.mark.parametrize("choices", [(FUSED,), (THREADS,), (FUSED, THREADS)], ids=str)
def test_it_joins_the_other_uncertainties_once_however_many_changes_there_are(analysis, without, choices):
    found, alone = asked(analysis, *choices), without(analysis, *choices)
    ratio = found.iteration_ms.value / analysis.baseline.iteration_ms.value
    beyond = beyond_model(analysis.baseline, ratio, len(choices))
    apart = hypot(BETWEEN_PROCESSES.value, beyond) * found.iteration_ms.value
    for wide, narrow in ((found.change_ms, alone.change_ms), (found.iteration_ms, alone.iteration_ms)):
        assert wide.value == narrow.value
        assert wide.value - wide.low == pytest.approx(hypot(narrow.value - narrow.low, apart))
        assert wide.high - wide.value == pytest.approx(hypot(narrow.high - narrow.value, apart))


def test_changes_are_compared_without_it(analysis, without):
    found, alone = asked(analysis, FUSED), without(analysis, FUSED)
    assert found.sure_speedup == alone.sure_speedup == alone.speedup_range.low
    assert found.speedup_range.low < found.sure_speedup


def test_a_point_of_the_curve_has_the_range_of_the_question(analysis):
    point = next(one for one in analysis.curve if one.batch_size == 32)
    assert point.iteration_ms.half_width > BETWEEN_PROCESSES.value * point.iteration_ms.value
    found = asked(analysis, size=32)
    assert found.iteration_ms.low == pytest.approx(point.iteration_ms.low)
    assert found.iteration_ms.high == pytest.approx(point.iteration_ms.high)
    changed = next(one for one in curve_under(analysis, (FUSED,)) if one.batch_size == 32)
    assert changed.iteration_ms.half_width > BETWEEN_PROCESSES.value * changed.iteration_ms.value


def test_the_measured_script_itself_stays_as_it_was_measured(analysis):
    unchanged = asked(analysis)
    assert unchanged.iteration_ms == analysis.baseline.iteration_ms
    assert unchanged.change_ms == Interval(0.0, 0.0, 0.0)
    own = next(one for one in analysis.curve if one.batch_size == analysis.profile.batch_size)
    assert own.iteration_ms == analysis.baseline.iteration_ms


def test_what_was_not_measured_on_a_processor_has_none(profile, gpu_profile):
    said = Prediction("X1", "told", "what was told", Interval(10.0, 5.0, 20.0), 0.0)
    predicted = replace(profile, prediction=said)
    assert [process_spread(analyse(one).baseline) for one in (predicted, gpu_profile)] == [0.0, 0.0]


def test_a_change_that_is_not_made_has_none(analysis):
    with pytest.raises(UsageError):
        asked(analysis, Choice("cpu_threads", "no number"))
    refused = asked(analysis, Choice("cuda_graphs"))
    assert not refused.applicable
    assert refused.change_ms == Interval(0.0, 0.0, 0.0)
