"""The contents of a batch, from the first operators of the forward pass: images, or sequences of tokens."""

from __future__ import annotations

from skyline import units
from skyline.report.schema import BatchContentsReport, ProfileReport
from skyline.trace.profile import Profile
from skyline.trace.record import OperatorShape, Phase, Trace

_CHANNELS = (1, 3, 4)
"""Channels of grey images, of colour images, and of colour images with transparency."""
_LEAST_TOKENS = 8
"""The least tokens of a sequence. Shorter rows of indices are table columns, as in a recommender."""
_SEQUENCES = ("attention", "lstm", "gru", "rnn")
"""Parts of the names of operators and modules that read sequences."""
_COMPUTES = ("mm", "linear", "conv", "lstm", "gru")


def contents_of(profile: Profile) -> BatchContentsReport | None:
    """``images``, or ``tokens`` with their number in a sample. None if the operators show neither."""
    size, trace = profile.batch_size, profile.trace
    if not size:
        return None
    for shape in _first_shapes(trace):
        name = shape.operator.rpartition("::")[2]
        if "conv" in name and shape.inputs and _is_image_batch(shape.inputs[0], size):
            return BatchContentsReport("images", 1)
        if name == "embedding" and len(shape.inputs) > 1 and _reads_sequences(profile):
            tokens = _tokens(shape.inputs[1], size)
            return BatchContentsReport("tokens", tokens) if tokens >= _LEAST_TOKENS else None
        if any(part in name for part in _COMPUTES):
            return None
    return None


def _first_shapes(trace: Trace) -> list[OperatorShape]:
    """The operator shapes in the forward pass of the first iteration, in order of time."""
    first = min((mark.index for mark in trace.iterations), default=0)
    rows = (
        row
        for row in trace.records
        if row.iteration == first and row.phase is Phase.FORWARD and row.shape >= 0
    )
    return [trace.shapes[row.shape] for row in sorted(rows, key=lambda row: row.start_us)]


def _is_image_batch(dimensions: tuple[int, ...], size: int) -> bool:
    return len(dimensions) == 4 and dimensions[0] == size and dimensions[1] in _CHANNELS


def _tokens(indices: tuple[int, ...], size: int) -> int:
    """The tokens of a sample; 0 if the indices are no batch of rows. Recurrent networks have the batch second."""
    if len(indices) != 2 or size not in indices:
        return 0
    return indices[1] if indices[0] == size else indices[0]


def _reads_sequences(profile: Profile) -> bool:
    names = [module.class_name for module in profile.modules]
    names += [shape.operator for shape in profile.trace.shapes]
    return any(part in name.lower() for name in names for part in _SEQUENCES)


def rate_words(report: ProfileReport) -> str:
    """``175 samples/s``, ``175 images/s`` or ``175 samples/s, 11200 tokens/s``; empty if the samples are unknown."""
    if report.throughput is None:
        return ""
    text = units.format_throughput(report.throughput.value)
    return f"{in_contents(report, text)}{tokens_words(report)}"


def in_contents(report: ProfileReport, text: str) -> str:
    """A text about samples, in terms of images if the batch holds images."""
    images = report.contents is not None and report.contents.noun == "images"
    return text.replace("samples/s", "images/s") if images else text


def tokens_words(report: ProfileReport) -> str:
    """``, 11200 tokens/s``; empty if the batch holds no tokens."""
    found = report.contents
    if found is None or found.noun != "tokens" or report.throughput is None:
        return ""
    rate = units.format_throughput(report.throughput.value * found.per_sample)
    return f", {rate.replace('samples/s', 'tokens/s')}"
