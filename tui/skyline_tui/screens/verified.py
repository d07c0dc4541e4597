"""A prediction with its measurement."""

from __future__ import annotations

from textual.content import Content

from skyline import units
from skyline.report.promises import format_ratio, promises
from skyline.report.schema import VerifyReport
from skyline_tui.figures import MUTED
from skyline_tui.screens.sheet import Sheet

_NAME, _PREDICTED = 13, 25


class VerifiedSheet(Sheet):
    """The verdict, then the numbers, then their basis."""

    def __init__(self, report: VerifyReport) -> None:
        super().__init__("Verified", Content("\n").join(_lines(report)))


def _lines(report: VerifyReport) -> list[Content]:
    measured = report.measured
    lines = [Content.styled(" ".join(report.whatifs), "bold"), Content(""), *_verdict(report), Content("")]
    lines.append(Content.styled(f"{'':{_NAME}}{'predicted':{_PREDICTED}}measured", MUTED))
    lines += [_row(*cells) for cells in promises(report, ratio="of the time")]
    lines.append(Content(""))
    rounds = f"{measured.rounds} round{'s' * (measured.rounds != 1)}"
    lines.append(
        _fact("null", f"the unchanged script against itself: {format_ratio(measured.null)} in {rounds}")
    )
    lines.append(_fact("machine", f"other programs used {measured.others_cores:.1f} cores"))
    now = units.format_ms(measured.baseline_ms)
    if report.baseline is not None:
        then = units.format_ms(report.baseline.iteration_ms.value)
        now = f"{then} in its profile, {now} this time; times are scaled to the profile"
    lines.append(_fact("unchanged", now))
    lines += [_fact("note", note) for note in report.notes]
    if report.entry is not None:
        lines.append(_fact("ledger", f"saved as {report.entry}: skyline ledger"))
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


def _row(name: str, predicted: str, measured: str) -> Content:
    return Content.assemble((f"{name:<{_NAME}}", MUTED), f"{predicted:<{_PREDICTED}}", (measured, "bold"))


def _fact(name: str, value: str) -> Content:
    return Content.assemble((f"{name:<{_NAME}}", MUTED), value)
