"""The summary line: the effect of the question on the screen, or the accuracy of the last prediction."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline.report.basis import direction, speedup_cell, speedup_words, to_loss_words
from skyline.report.protocol import QuestionParams
from skyline.report.schema import EstimateReport, ProfileReport
from skyline_tui.figures import DIRECTION_STYLES, MUTED, fitting

NOTHING_ASKED = "drag a bar, or check a what-if with space"


def together(estimate: EstimateReport | None, question: QuestionParams, width: int = 99) -> Content:
    """``together (2): 177.3 ms ±2.4 · 181 samples/s ±2 · 1.9 GB · 1.30x (1.28–1.32x) speed``, shortened to the width.

    The text never takes a second line, because that would move everything above it during a drag.
    """
    if estimate is None:
        return Content.styled(NOTHING_ASKED, MUTED)
    names = [f"batch {question.batchSize}"] if question.batchSize is not None else []
    names += question.whatifs
    what = names[0] if len(names) == 1 else f"together ({len(names)})"
    if not estimate.applicable:
        return Content.assemble(
            (f"{what}: ", "bold"), ("! " + (estimate.reason or "does not apply here"), "$text-warning")
        )
    time = units.format_ms_interval(estimate.iteration_ms)
    speed = f"{speedup_cell(estimate.speedup, estimate.speedup_range).removeprefix('~')} speed"
    sure = f"{speedup_words(estimate.speedup, estimate.speedup_range)} speed"
    memory = units.format_bytes(estimate.peak.value)
    rates: tuple[str, ...] = ()
    if estimate.throughput is not None:
        rate = estimate.throughput
        rates = units.format_throughput_interval(rate), units.format_throughput(rate.value)
    to_loss = to_loss_words(estimate.to_loss, short=True)
    forms = [(time, rate, memory, f"same loss: {to_loss}", sure) for rate in rates[:1] if to_loss]
    forms += [(time, rate, f"same loss: {to_loss}", speed) for rate in rates if to_loss]
    forms += [(time, rate, memory, sure) for rate in rates[:1]]
    forms += [(time, rate, memory, speed) for rate in rates]
    forms += [(time, memory, speed), (time, speed)]
    mark = " · !\u00a0extrapolated" if estimate.extrapolated else ""
    room = width - len(f"{what}: ") - len(mark)
    said = fitting(room, *map(" · ".join, forms))
    head, _, tail = said.rpartition(" · ")
    return Content.assemble(
        (f"{what}: ", "bold"),
        f"{head} · ",
        (tail, DIRECTION_STYLES[direction(estimate.speedup_range)]),
        (mark, "bold $text-warning"),
    )


def written(question: QuestionParams, expected: EstimateReport | None) -> Content:
    """The change that is in the code and not yet measured."""
    names = [f"batch {question.batchSize}"] if question.batchSize is not None else []
    promised = (
        f" predicted {units.format_ms_interval(expected.iteration_ms)};" if expected is not None else ""
    )
    return Content.assemble(
        ("written: ", "bold"), " + ".join((*names, *question.whatifs)), promised, (" u undoes, d diff", MUTED)
    )


def kept_promise(expected: EstimateReport, profile: ProfileReport) -> Content:
    """The prediction for the applied change, with the measurement that followed."""
    predicted, measured = expected.iteration_ms, profile.iteration_ms
    off = abs(predicted.value / measured.value - 1)
    overlap = predicted.low <= measured.high and measured.low <= predicted.high
    verdict = "within the ranges" if overlap else "outside the ranges"
    return Content.assemble(
        ("applied: ", "bold"),
        f"predicted {units.format_ms_interval(predicted)}, measured {units.format_ms_interval(measured)}: ",
        (f"{units.format_share(off)} off, {verdict}", "$text-success" if overlap else "$text-warning"),
    )
