"""The best combination, with the command that makes it."""

from __future__ import annotations

from skyline import units
from skyline.report.one_off import one_off_words
from skyline.report.schema import BaselineReport, BestReport
from skyline.report.speedup import baseline_doubt, speedup_words
from skyline.report.text.page import Page
from skyline.report.text.whatifs import memory_change

_ALLOWED = {
    "exact": "that give the same results",
    "numerics": "that may differ in rounding",
    "convergence": "of any kind",
}


def render_best(best: BestReport, baseline: BaselineReport, page: Page, *, script: str) -> None:
    """The combination, its effect and the command that makes it; or the reason why there is none."""
    limit = "" if best.memory_bytes is None else f", within {units.format_bytes(best.memory_bytes)}"
    page.title("Best combination", f"of {best.tried} simulated, {_ALLOWED[best.semantics]}{limit}")
    for left_out in best.left_out:
        page.paragraph(f"left out: {left_out}", indent=1, style="dim")
    found = best.estimate
    if found is None or not best.choices:
        page.paragraph(best.reason or "no change is predicted to be worth making", indent=1)
        return
    page.paragraph(" ".join(best.choices), indent=1, style="bold")
    before = units.format_ms(baseline.iteration_ms.value)
    facts = [
        f"{units.format_ms_interval(found.iteration_ms)} per iteration, was {before}",
        f"speed {speedup_words(found.speedup, found.speedup_range)}",
        f"peak memory {units.format_bytes(found.peak.value)} ({memory_change(found, baseline)})",
    ]
    page.paragraph(" · ".join(facts), indent=3)
    if found.extrapolated:
        page.paragraph("extrapolated: outside the measured range", indent=3, style="yellow")
    if doubt := baseline_doubt(found.speedup, baseline.iteration_ms):
        page.paragraph(f"the speed is {doubt}", indent=3, style="yellow")
    if once := one_off_words(found.one_off_s, found.break_even_iterations):
        page.paragraph(f"once: {once}", indent=3)
    for assumption in found.assumptions:
        page.paragraph(f"assumes: {assumption}", indent=3, style="dim")
    words = " ".join(best.choices)
    if found.rewrite == "available":
        page.paragraph(f"make it: skyline apply {script} {words}", indent=3, style="dim")
        page.paragraph(f"check it: skyline verify {script} {words}", indent=3, style="dim")
    else:
        reason = f": {found.rewrite_reason}" if found.rewrite_reason else ""
        page.paragraph(f"not all changes can be made automatically{reason}", indent=3, style="dim")
