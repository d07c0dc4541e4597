"""The page of ``skyline plan --preset``."""

from __future__ import annotations

from collections.abc import Iterator

from skyline import units
from skyline.report.document import (
    Cell,
    Column,
    Document,
    Row,
    Section,
    TextTable,
    Title,
    document,
    paragraphs,
    said,
)
from skyline.report.pages.plan import dollar_words, gpus_words, hours_words, rate_words
from skyline.report.preset_report import MeasureRow, PresetReport, PresetStep


def preset_page(report: PresetReport) -> Document:
    """The verdict, a row for each measure, and the published figures."""
    basis = f"{gpus_words(report.gpus)} of {report.cluster} ({report.gpu}), figures are {report.provenance}"
    meaning = (
        "gain: over the row before; alone: over the start; in the stack: all measures over all but this one. "
        "convergence: the training converges differently."
    )
    published = [f"{one.figure} ({one.source})" for one in report.published]
    return document(
        Section((Title(report.title, basis),)),
        Section(tuple(said(*verdict(report), tone="bold"))),
        Section((_table(report), *said(meaning)), "Measures", "one after the other, each with those before"),
        paragraphs("Published", published),
        paragraphs("Left out", report.left_out),
        paragraphs("Cluster", (report.source,)),
    )


def verdict(report: PresetReport) -> tuple[str, ...]:
    """The joint gain, the product of the single gains, the steps per day, and the time of the whole training."""
    joint = report.joint
    if joint is None:
        return ("The training with all measures does not fit the GPU's memory.",)
    lines = [
        f"All measures together: {rate_words(joint.tokens_per_s)} tokens/s with {joint.label}{_over(report)}."
    ]
    if report.steps_a_day is not None:
        lines.append(f"A day has {report.steps_a_day:,.0f} steps of {joint.batch:,} sequences.")
    said_of = f" ({report.amount})" if report.amount else ""
    hours = joint.hours
    ends = f"{hours_words(hours)}, {hours.low / 24:.1f} to {hours.high / 24:.1f} d"
    cost = "" if joint.usd is None else f" and {dollar_words(joint.usd)}"
    lines.append(f"{report.tokens / 1e9:,.1f} billion tokens{said_of} take {ends}{cost}.")
    return tuple(lines)


def _over(report: PresetReport) -> str:
    if report.gain is None:
        return "; the start does not fit the GPU's memory"
    times = f", {units.format_ratio(report.gain)} the start"
    if report.product is None:
        return times
    return f"{times}; the measures alone multiply to {units.format_ratio(report.product)}"


def _table(report: PresetReport) -> TextTable:
    columns = (
        Column("measure", left=True),
        Column("training", left=True),
        Column("micro-batch"),
        Column("tokens/s"),
        Column("gain"),
        Column("alone"),
        Column("in the stack"),
        Column("memory"),
        Column("time"),
    )
    rows = [Row(tuple(_cells("start", "", report.start, None)))]
    rows += [Row(tuple(_cells(one.name, one.semantics, one.step, one))) for one in report.measures]
    return TextTable(columns, tuple(rows))


def _cells(name: str, semantics: str, step: PresetStep | None, measure: MeasureRow | None) -> Iterator[Cell]:
    gains = (measure.gain, measure.alone, measure.without) if measure is not None else (None, None, None)
    shown = ["-" if one is None else units.format_ratio(one) for one in gains]
    if step is None:
        texts = [name, semantics, "does not fit", "-", *shown, "-", "-"]
    else:
        _, _, micro_batch = step.label.partition("micro-batch ")
        memory = units.format_bytes(step.memory_bytes.value)
        texts = [
            name,
            semantics,
            micro_batch,
            rate_words(step.tokens_per_s),
            *shown,
            memory,
            hours_words(step.hours),
        ]
    return (Cell(text, "dim" if step is None else "") for text in texts)
