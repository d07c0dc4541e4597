"""The costliest lines of the person's source, with their cost in each phase."""

from __future__ import annotations

from rich.text import Text

from skyline import units
from skyline.report.schema import LineReport, ProfileReport
from skyline.report.text.page import GUTTER, PHASE_STYLES, Column, Page, column_width
from skyline.trace.phase import Phase

SHOWN = 10
_PARTS = (
    ("forward", "forward_ms", Phase.FORWARD),
    ("backward", "backward_ms", Phase.BACKWARD),
    ("optimizer", "optimizer_ms", Phase.OPTIMIZER),
    ("data", "data_ms", Phase.DATA),
    ("other", "other_ms", Phase.OTHER),
)
# Where room is short, a phase with less than this share of the iteration gets no column of its own.
_NARROW_SHARE = 0.03
_LEAST_SOURCE = 20
_KERNELS = 3
"""Kernels shown under a line; the report for programs has more."""
_UNDER = "  on the GPU: "
_SHORT = {"forward": "fwd", "backward": "bwd", "optimizer": "optim"}


def render_lines(report: ProfileReport, page: Page, shown: int = SHOWN) -> None:
    """The ``shown`` costliest lines, the others in one row, the unattributed rest, and the sum of all."""
    lines = [line for line in report.lines if line.file]
    dear, others = lines[:shown], lines[shown:]
    rest = [line for line in report.lines if not line.file]
    page.title("Costliest lines", f"{units.time_scale((report.phases.total,)).unit} per iteration")
    if not lines:
        page.paragraph("no time could be assigned to a line: no operator was called from your code")
        return
    scale = units.time_scale((report.iteration_ms.value,))
    wide = page.width >= 100
    least = 0.0 if wide else _NARROW_SHARE * report.iteration_ms.value
    parts = [part for part in _PARTS if _shows(getattr(_sum(list(report.lines)), part[1]), scale, least)]
    titles = [name if wide else _SHORT.get(name, name) for name, _, _ in parts]
    sums = [*([_sum(others)] if others else []), *([_sum(rest)] if rest else [])]
    everything = _sum(lines + rest)

    numbers: list[list[Text]] = []
    for row in [*dear, *sums, everything]:
        cells = [page.text(scale.number(row.self_ms), _heat(row.share if row.file else 0.0)),
                 page.text(units.format_share(row.share))]  # fmt: skip
        for _, field, phase in parts:
            value = float(getattr(row, field))
            zero = not _shows(value, scale)
            cells.append(
                page.text("-" if zero else scale.number(value), "dim" if zero else PHASE_STYLES[phase])
            )
        numbers.append(cells)
    titles = [scale.unit, "share", *titles]
    taken = [column_width(title, [cells[i] for cells in numbers]) + GUTTER for i, title in enumerate(titles)]
    room = page.width - sum(taken) - GUTTER
    place_width = place_column([page.place(line.file, line.line, 999).cell_len for line in dear], room)
    source_width = max(8, room - place_width)

    names: list[tuple[Text, Text]] = [
        (page.place(line.file, line.line, place_width), page.cut(line.source.strip(), source_width))
        for line in dear
    ]
    if others:
        label = f"{len(others)} more line{'s' if len(others) > 1 else ''}"
        names.append((page.text(label, "dim"), Text("")))
    if rest:
        names.append(
            (
                page.text("unattributed", "dim"),
                page.cut("outside your code", source_width, "dim"),
            )
        )
    names.append((page.text("iteration"), Text("")))
    columns = (Column("", "left"), Column("", "left"), *(Column(title) for title in titles))
    rows = [(*name, *cells) for name, cells in zip(names, numbers, strict=True)]
    page.table(columns, rows, sums=len(sums) + 1, under=[_kernels(report, line, page) for line in dear])


def _kernels(report: ProfileReport, line: LineReport, page: Page) -> list[Text]:
    """The longest kernels of a line with their time on the GPU and launches per iteration, a row each."""
    rows: list[Text] = []
    own = [kernel for kernel in report.kernels if (kernel.file, kernel.line) == (line.file, line.line)]
    for kernel in own[:_KERNELS]:
        count = f"{kernel.calls:.3g} launch{'es' if kernel.calls != 1 else ''}"
        figures = f"  {units.format_ms(kernel.gpu_ms)}, {count}"
        name = page.shortened(
            kernel.name.removeprefix("void "), max(8, page.width - len(_UNDER) - len(figures)), "dim"
        )
        rows.append(Text.assemble(_UNDER, name, page.text(figures, "dim")))
    return rows


def place_column(widths: list[int], room: int) -> int:
    """Width of the places: full if that leaves room for the source, else less than half of the room."""
    whole = [width for width in widths if width <= room - _LEAST_SOURCE]
    return min(max(widths), max(14, int(room * 0.4), *whole))


def _shows(value_ms: float, scale: units.UnitScale, least_ms: float = 0.0) -> bool:
    return value_ms >= least_ms and bool(scale.number(value_ms).strip("-0."))


def _heat(share: float) -> str:
    if share >= 0.15:
        return "bold red"
    return "bold yellow" if share >= 0.05 else "bold" if share > 0 else ""


def _sum(lines: list[LineReport]) -> LineReport:
    return LineReport(
        file="",
        line=0,
        function="",
        module="",
        source="",
        calls=0.0,
        data_ms=sum(line.data_ms for line in lines),
        forward_ms=sum(line.forward_ms for line in lines),
        backward_ms=sum(line.backward_ms for line in lines),
        optimizer_ms=sum(line.optimizer_ms for line in lines),
        other_ms=sum(line.other_ms for line in lines),
        self_ms=sum(line.self_ms for line in lines),
        share=sum(line.share for line in lines),
        activation_bytes=sum(line.activation_bytes for line in lines),
    )
