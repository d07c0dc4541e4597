"""One line of the person's source in full: every phase, memory, arithmetic, and what it calls."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from skyline import units
from skyline.errors import UsageError
from skyline.report.schema import LineReport, ProfileReport
from skyline.report.text.page import PHASE_STYLES, Column, Page
from skyline.trace.phase import Phase

_ALWAYS = 1.0 - 1e-9


def find_line(report: ProfileReport, place: str) -> LineReport:
    """The line that ``FILE:LINE`` or ``LINE`` (of the script) names. Raises UsageError where nothing was billed."""
    name, _, number = place.rpartition(":")
    if not number.isdigit():
        raise UsageError(f"{place} names no line", hint="Write --line 42 or --line model.py:42.")
    wanted = name or report.script
    for line in report.lines:
        if line.file and line.line == int(number) and _is_file(line.file, wanted):
            return line
    raise UsageError(
        f"No time went to line {number} of {Path(wanted).name}",
        hint="`skyline show` lists the costliest lines, its --json all of them.",
    )


def render_line(report: ProfileReport, line: LineReport, page: Page) -> None:
    """Everything that the profile knows of one line."""
    scale = units.time_scale((report.iteration_ms.value,))
    page.title(page.place(line.file, line.line, page.width).plain, line.function)
    page.line(page.cut(line.source.strip(), page.width))
    page.blank()
    for phase in Phase:
        value = float(getattr(line, f"{phase.value}_ms", 0.0))
        if scale.number(value).strip("0."):
            page.line(page.text(f"{phase.value:<10}", PHASE_STYLES[phase]), page.text(scale.text(value)))
    page.line(
        page.text(f"{'in all':<10}"),
        page.text(f"{scale.text(line.self_ms)}, {units.format_share(line.share)}"),
    )
    for remark in _remarks(line):
        page.paragraph(remark, style="dim")
    parts = [part for part in line.parts if scale.number(part.self_ms).strip("0.")]
    if parts:
        page.blank()
        page.title("Of which", f"{scale.unit} per iteration")
        room = page.width - 16
        callees = min(max(len(part.callee) for part in parts), room // 2)
        rows: list[tuple[Text, ...]] = [
            (
                page.text(scale.number(part.self_ms)),
                page.shortened(part.module, room - callees),
                page.shortened(part.callee, callees),
            )
            for part in parts
        ]
        page.table((Column(scale.unit), Column("module", "left"), Column("calls", "left")), rows)


def _remarks(line: LineReport) -> list[str]:
    found: list[str] = []
    if line.calls:
        found.append(f"runs {_times(line.calls)} per iteration")
    if line.frequency < _ALWAYS:
        found.append(f"ran in {units.format_share(line.frequency)} of the recorded iterations only")
    if line.gpu_ms > 0:
        found.append(
            f"its kernels keep the GPU busy for {units.format_ms(line.gpu_ms)}, in parallel with the times above"
        )
    if line.flops:
        found.append(f"{line.flops / 1e9:.3g} billion floating-point operations, forward and backward")
    if line.activation_bytes:
        found.append(f"keeps {units.format_bytes(line.activation_bytes)} for its backward work")
    if line.peak_bytes:
        found.append(f"holds {units.format_bytes(line.peak_bytes)} when memory is at its peak")
    return found


def _times(count: float) -> str:
    return "once" if count == 1 else f"{units.format_count(count)} times"


def _is_file(path: str, wanted: str) -> bool:
    given = Path(wanted)
    return path == str(given) or Path(path).parts[-len(given.parts) :] == given.parts or _same(path, given)


def _same(path: str, given: Path) -> bool:
    try:
        return Path(path).resolve() == given.resolve()
    except OSError:
        return False
