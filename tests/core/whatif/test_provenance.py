"""Where answers come from: runs of this script, parts of it, models, assumptions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.analysis.analyse import analyse
from skyline.analysis.estimate import estimate
from skyline.interval import Interval
from skyline.report.basis import PROVENANCE
from skyline.trace.profile import Prediction
from skyline.whatif.base import Provenance
from skyline.whatif.baseline import baseline
from skyline.whatif.composition import compose
from skyline.whatif.question import Choice, Question


@pytest.fixture
def narrow(profile):
    """On a processor that computes in bfloat16."""
    environment = replace(profile.environment, cpu_features=("avx512f", "avx512_bf16"))
    return replace(profile, environment=environment)


def provenance(profile, *names: str) -> str:
    return compose(baseline(profile), tuple(map(Choice.parse, names))).scenario.provenance.value


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), "measured"),
        (("batch_size=16",), "measured"),
        (("batch_size=32",), "measured"),
        (("batch_size=24",), "interpolated"),
        (("batch_size=128",), "modelled"),
        (("grad_accumulation=2",), "tried"),
        (("fused_optimizer",), "modelled"),
        (("num_workers=2",), "modelled"),
        (("amp",), "assumed"),
        (("batch_size=32", "fused_optimizer"), "modelled"),
        (("fused_optimizer", "amp"), "assumed"),
    ],
)
def test_each_answer_says_where_it_comes_from_and_several_the_weakest(narrow, names, said) -> None:
    assert provenance(narrow, *names) == said


def test_nothing_was_measured_of_a_predicted_profile(profile) -> None:
    said = Prediction("H100", "roofline", "figures", Interval.exact(10.0), 0.0)
    predicted = replace(profile, mode="predicted", prediction=said)
    assert provenance(predicted) == "modelled"
    assert provenance(predicted, "batch_size=32") == "modelled"


def test_a_what_if_that_does_not_apply_adds_nothing(profile) -> None:
    answer = estimate(analyse(profile), Question(choices=(Choice("cuda_graphs"),)))
    assert not answer.applicable
    assert answer.provenance == "measured"


def test_front_ends_have_words_for_each() -> None:
    assert list(PROVENANCE) == [one.value for one in Provenance]
