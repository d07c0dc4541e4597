"""The page of ``skyline estimate``: critical batch size, time and cost to the same loss by batch size, checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from shlex import quote

from skyline import units
from skyline.analysis.training_time import TrainingTime
from skyline.interval import Interval
from skyline.memory.peak import Fit
from skyline.predict.noise_scale import NoiseScale
from skyline.report.basis import span_unit, when
from skyline.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Figures,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    said,
)
from skyline.report.training import TrainingReport

_CRITICAL = "critical batch size"


def training_page(report: TrainingReport) -> Document:
    """The figures, the table over batch sizes, and the basis of both."""
    verb = "predicted" if report.mode == "predicted" else "measured"
    basis = f"iterations {verb} {when(report.created)} on {report.device}"
    return document(
        Section((Title(f"{report.name}: time to train {_amount(report)}", basis, plain=True),)),
        Section(tuple(_figures(report))),
        _table(report),
        _noise(report),
        _checkpoints(report),
        paragraphs("In the times", report.included),
        paragraphs("Not in the times", report.not_included),
        paragraphs("Basis of these figures", (*report.assumptions, *_price(report), *report.notes)),
    )


def _amount(report: TrainingReport) -> str:
    samples = f"{_count(report.samples)} samples"
    return f"{report.epochs:,.4g} epochs ({samples})" if report.epochs is not None else samples


def _figures(report: TrainingReport) -> Iterator[Block]:
    now = next((one for one in report.rows if one.batch_size == report.batch_size), None)
    best = next((one for one in report.rows if one.batch_size == report.fastest), None)
    figures = [
        Figure(
            _CRITICAL,
            _scale(report.noise),
            "samples",
            f" ({scale_range(report.noise)})",
            before=f"{_CRITICAL} ",
        )
    ]
    for name, row in (("now", now), ("fastest", best if best is not now else None)):
        if row is not None:
            text, unit = _duration(row.time_s)
            cost = f", {_dollars(row.usd)}" if row.usd is not None else ""
            before = f"{name} (batch {row.batch_size}) "
            figures.append(Figure(f"{name}: batch {row.batch_size}", text, unit, before=before, after=cost))
    yield Figures(tuple(figures))


def _table(report: TrainingReport) -> Section:
    paid = report.price is not None
    rate = units.rate_scale(one.throughput.value for one in report.rows)
    unit, length_s = span_unit(max((one.time_s.value for one in report.rows), default=0.0))
    columns = (
        Column("batch"),
        Column(rate.unit),
        Column("samples"),
        Column("steps", spared=1),
        Column(f"time ({unit})"),
        *((Column("cost ($)"),) if paid else ()),
        Column("peak memory", spared=2),
        Column("", left=True),
    )

    def row(one: TrainingTime) -> Row:
        now = one.batch_size == report.batch_size
        tone = "bold" if now else "dim" if one.extrapolated else ""
        texts = [
            str(one.batch_size),
            rate.number_with_spread(one.throughput),
            _ratio(one.samples_ratio),
            _count(one.steps.value),
            _spread(one.time_s, 1 / length_s),
            *([_spread(one.usd, 1.0)] if one.usd is not None else []),
            units.format_bytes(one.peak_bytes.value),
            "  ".join(_marks(one, report)),
        ]
        return Row(tuple(Cell(text, tone) for text in texts))

    aside = "samples relative to now, for the same loss; brackets are ranges"
    return Section((TextTable(columns, tuple(map(row, report.rows))),), "By batch size", aside)


def _marks(one: TrainingTime, report: TrainingReport) -> Iterator[str]:
    if one.batch_size == report.batch_size:
        yield "◀ now"
    if one.batch_size == report.fastest:
        yield "fastest"
    if one.batch_size == report.cheapest and report.cheapest != report.fastest:
        yield "cheapest"
    if one.extrapolated:
        yield "speed extrapolated"
    if one.fits is Fit.UNSURE:
        yield "may not fit"


def _noise(report: TrainingReport) -> Section | None:
    if not report.points:
        return None
    columns = (Column("after updates"), Column("loss"), Column(_CRITICAL), Column("range"))
    rows = tuple(
        Row(
            (
                Cell(f"{one.updates:,}"),
                Cell("-" if one.loss is None else f"{one.loss:.4g}"),
                Cell(_scale(one.scale)),
                Cell(scale_range(one.scale)),
            )
        )
        for one in report.points
    )
    explained = "Gradients of iterations at the same weights, compared with each other."
    return Section((TextTable(columns, rows), *said(explained)), "Gradient noise in training")


def _checkpoints(report: TrainingReport) -> Section | None:
    """The current interval between checkpoints, and the interval that loses least time."""
    saving = report.saving
    if saving is None:
        return None

    def row(words: str, iterations: float, lost: float | None, tone: str = "") -> Row:
        every_s = Interval.exact(iterations * saving.iteration_ms / 1e3)
        texts = (
            words,
            f"{iterations:,.0f}",
            " ".join(_duration(every_s)),
            "-" if lost is None else _lost(lost),
        )
        return Row(tuple(Cell(text, tone) for text in texts))

    rows = [row("least time lost (Young/Daly)", saving.best, saving.lost_best, "bold")]
    rows.append(
        row("the same, without repeated work (partial recovery)", saving.best, saving.lost_partial, "dim")
    )
    if saving.every is not None:
        rows.insert(0, row("now", saving.every, saving.lost_now))
    columns = (Column("", left=True), Column("every iterations"), Column("every"), Column("time lost"))
    place = f", {PurePath(saving.line.file).name} line {saving.line.line}" if saving.line is not None else ""
    size = f" of {units.format_bytes(saving.size_bytes)}" if saving.size_bytes else ""
    seen = "once" if saving.seen == 1 else f"{saving.seen} times"
    save_s, hours = _spread(saving.save_s, 1.0), saving.failures.mtbf_s / 3600
    parts = "the start, and reading the checkpoint (assumed as long as writing it)"
    told = (
        f"A checkpoint{size} takes {save_s} s, measured {seen}{place}; it went to the folder for temporary files.",
        f"A failure every {hours:,.4g} hours ({saving.failures.source}; --mtbf HOURS for yours).",
        f"Recovery takes {saving.restart_s:.1f} s: {parts}. Queueing is not included.",
        f"Write it: skyline apply {quote(PurePath(report.script).name)} checkpoint_every={saving.best}",
    )
    aside = "to saving, restarts and repeated work; not in the times above"
    return Section((TextTable(columns, tuple(rows)), *said(*told)), "Checkpoints", aside)


def _lost(share: float) -> str:
    return f"{100 * share:.2f} %" if share < 0.1 else f"{100 * share:,.0f} %" if share < 1e3 else "all"


def _price(report: TrainingReport) -> tuple[str, ...]:
    if report.price is None:
        return ()
    return (f"Cost at ${report.price.usd:,.4g} an hour ({report.price.source}).",)


def _scale(noise: NoiseScale) -> str:
    return f"above {noise.low:,.3g}" if noise.value is None else _count(noise.value)


def scale_range(noise: NoiseScale) -> str:
    """``820–2,300``; ``from 820`` without an upper end."""
    if noise.high is None:
        return f"from {_count(noise.low)}"
    return f"{_count(noise.low)}–{_count(noise.high)}"


def _ratio(ratio: Interval) -> str:
    text = f"{ratio.value:.2f}x"
    wide = ratio.high - ratio.low > 0.01
    return f"{text} ({ratio.low:.2f}–{ratio.high:.2f})" if wide else text


def _duration(time_s: Interval) -> tuple[str, str]:
    unit, length_s = span_unit(time_s.value)
    return _spread(time_s, 1 / length_s), unit


def _spread(interval: Interval, factor: float) -> str:
    scaled = interval.scaled(factor)
    text = _number(scaled.value)
    low, high = _number(scaled.low), _number(scaled.high)
    return text if low == high else f"{text} ({low}–{high})"


def _dollars(usd: Interval) -> str:
    return f"${_number(usd.value)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _count(value: float) -> str:
    if value >= 1e15:
        return f"{value:.3g}"
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
