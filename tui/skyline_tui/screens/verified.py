"""A prediction beside its measurement."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline.interval import Interval
from skyline.report.schema import VerifyReport
from skyline_tui.figures import MUTED
from skyline_tui.screens.sheet import Sheet

_NAME, _PREDICTED = 13, 25


class Verified(Sheet):
    """The verdict first, then the numbers, then what they rest on."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__("Verified", Content("\n").join(_lines(report)))


def _lines(report: VerifyReport) -> list[Content]:
    measured = report.measured
    lines = [Content.styled(" ".join(report.whatifs), "bold"), Content(""), *_verdict(report), Content("")]
    lines.append(Content.styled(f"{'':{_NAME}}{'predicted':{_PREDICTED}}measured", MUTED))
    lines += [_row(*cells) for cells in _cells(report)]
    lines.append(Content(""))
    rounds = f"{measured.rounds} round{'s' * (measured.rounds != 1)}"
    lines.append(_fact("null", f"the script against itself: {_ratio(measured.null)} in {rounds}"))
    lines.append(_fact("machine", f"other programs kept {measured.others_cores:.1f} cores busy"))
    now = units.format_ms(measured.baseline_ms)
    if report.baseline is not None:
        then = units.format_ms(report.baseline.iteration_ms.value)
        now = f"{then} in its profile, {now} this time; times are scaled to the former"
    lines.append(_fact("as it stands", now))
    lines += [_fact("note", note) for note in report.notes]
    if report.entry is not None:
        lines.append(_fact("ledger", f"kept as {report.entry}: skyline ledger"))
    return lines


def _verdict(report: VerifyReport) -> list[Content]:
    if not report.valid:
        lines = [
            Content.assemble(("! discarded: ", "bold $text-warning"), report.reason or "no reason was given")
        ]
        return lines + ([Content.styled(report.hint, MUTED)] if report.hint else [])
    if report.error is None:
        return [Content.styled("measured", "bold")]
    inside, style = ("inside", "bold $text-success") if report.held else ("! outside", "bold $text-error")
    off = (
        f"   predicted {units.format_share(abs(report.error))} too {'long' if report.error >= 0 else 'short'}"
    )
    return [Content.assemble((f"{inside} the predicted interval", style), off)]


def _cells(report: VerifyReport) -> list[tuple[str, str, str]]:
    measured, predicted, baseline = report.measured, report.predicted, report.baseline
    cells: list[tuple[str, str, str]] = []
    promised = units.format_ms_interval(predicted.iteration_ms) if predicted is not None else ""
    cells.append(("iteration", promised, units.format_ms_interval(measured.iteration_ms)))
    promised = ""
    if predicted is not None and baseline is not None:
        promised = _ratio(predicted.iteration_ms.scaled(1 / baseline.iteration_ms.value))
    cells.append(("of the time", promised, _ratio(measured.ratio)))
    if measured.throughput is not None:
        promised = ""
        if predicted is not None and predicted.throughput is not None:
            promised = units.format_throughput_interval(predicted.throughput)
        cells.append(("throughput", promised, units.format_throughput_interval(measured.throughput)))
    if measured.peak_bytes is not None:
        promised = units.format_bytes(predicted.peak_bytes.value) if predicted is not None else ""
        change = ""
        if measured.baseline_peak_bytes is not None:
            change = f" ({units.format_bytes_delta(measured.peak_bytes - measured.baseline_peak_bytes)})"
        cells.append(("peak memory", promised, units.format_bytes(measured.peak_bytes) + change))
    return cells


def _row(name: str, predicted: str, measured: str) -> Content:
    return Content.assemble((f"{name:<{_NAME}}", MUTED), f"{predicted:<{_PREDICTED}}", (measured, "bold"))


def _fact(name: str, value: str) -> Content:
    return Content.assemble((f"{name:<{_NAME}}", MUTED), value)


def _ratio(ratio: Interval) -> str:
    """``0.857 (0.846 to 0.869)``."""
    return f"{ratio.value:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
