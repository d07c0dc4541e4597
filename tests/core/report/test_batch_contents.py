"""A batch of images, of tokens, or of samples of another kind, by the first operators of the forward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skyline.interval import Interval
from skyline.report.basis import headline
from skyline.report.batch_contents import contents_of, rate_words
from skyline.report.schema import BatchContentsReport, ProfileReport
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, Record, RecordKind

IMAGES = BatchContentsReport("images", 1)
ATTENTION = OperatorShape("aten::scaled_dot_product_attention", ((32, 4, 64, 8),), ("float32",))


def embedding(*indices: int) -> OperatorShape:
    return OperatorShape("aten::embedding", ((1000, 16), indices), ("float32", "int64"))


def convolution(*image: int) -> OperatorShape:
    return OperatorShape("aten::conv2d", (image, (8, image[1], 3, 3)), ("float32", "float32"))


LINEAR = OperatorShape("aten::linear", ((32, 8), (4, 8)), ("float32", "float32"))


def with_operators(profile: Profile, *shapes: OperatorShape) -> Profile:
    """The forward pass of these operators, in order, at batch size 32."""
    (first, *_) = profile.trace.iterations
    records = tuple(
        Record(
            one.operator, RecordKind.OPERATOR, Phase.FORWARD, "cpu:main", first.index, float(n), 1.0, shape=n
        )
        for n, one in enumerate(shapes)
    )
    trace = replace(profile.trace, records=records, shapes=shapes)
    return replace(profile, trace=trace, batch_size=32, modules=())


@pytest.mark.parametrize(
    ("shapes", "contents"),
    [
        ((convolution(32, 3, 64, 64), LINEAR), IMAGES),
        ((convolution(32, 16, 64, 64),), None),
        ((convolution(8, 3, 64, 64),), None),  # several pictures of a sample, or another batch
        ((embedding(32, 64), LINEAR, ATTENTION), BatchContentsReport("tokens", 64)),
        ((embedding(64, 32), ATTENTION), BatchContentsReport("tokens", 64)),
        ((embedding(32, 4), ATTENTION), None),
        ((embedding(32, 64), LINEAR), None),  # a table of columns
        ((LINEAR, embedding(32, 64), ATTENTION), None),
        ((), None),
    ],
)
def test_the_first_operator_shows_what_a_batch_holds(
    profile: Profile, shapes: tuple[OperatorShape, ...], contents: BatchContentsReport | None
) -> None:
    assert contents_of(with_operators(profile, *shapes)) == contents


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (None, "200 samples/s"),
        (IMAGES, "200 images/s"),
        (BatchContentsReport("tokens", 64), "200 samples/s, 12800 tokens/s"),
    ],
)
def test_the_rate_has_its_word(
    profile_report: ProfileReport, contents: BatchContentsReport | None, words: str
) -> None:
    report = replace(profile_report, throughput=Interval.exact(200.0), contents=contents)
    assert rate_words(report) == words
    assert f" · {words} · " in headline(report)
    assert rate_words(replace(report, throughput=None)) == ""
