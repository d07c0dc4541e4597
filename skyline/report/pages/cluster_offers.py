"""The page of ``skyline plan`` for several clusters."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from skyline import units
from skyline.report.cluster_offers import ClusterOffer, ClusterOffers
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
from skyline.report.plan_report import PlanRow


def offers_page(found: ClusterOffers, script: str | None, arguments: Sequence[str] = ()) -> Document:
    """The verdict, one row for each cluster, and the reasons of clusters without a strategy.

    ``script`` is the file to change, with its ``arguments``. None for a described model.
    """
    missing = [f"{one.cluster} ({one.gpu}): {one.advice}" for one in found.offers if one.row is None]
    return document(
        Section((Title(found.model, f"{len(found.offers)} clusters, figures are {found.provenance}"),)),
        Section(tuple(said(*verdict(found, script, arguments), tone="bold"))),
        Section((_table(found),), "Clusters", "the best strategy on each") if _planned(found) else None,
        paragraphs("Not in the table", missing),
    )


def verdict(found: ClusterOffers, script: str | None, arguments: Sequence[str] = ()) -> tuple[str, ...]:
    """The best cluster, whether the next one is equally good within the ranges, and the next command."""
    planned = _planned(found)
    if not planned:
        return ("No cluster has a strategy that fits.",)
    best, row = planned[0]
    if row.objection:
        return (f"No cluster meets the terms. The nearest is {best.cluster}: the training {row.objection}.",)
    said_of = f"{row.label} on {gpus_words(row.gpus)}"
    lines = [f"{_superlative(row)}: {best.cluster} with {said_of}{_bill(row)}."]
    if len(planned) > 1 and _as_good(row, planned[1][1]):
        lines.append(f"{planned[1][0].cluster} is equally good within the ranges.")
    if script is not None:
        lines.append(_command(best, row, script, arguments))
    return tuple(lines)


def _planned(found: ClusterOffers) -> list[tuple[ClusterOffer, PlanRow]]:
    return [(one, one.row) for one in found.offers if one.row is not None]


def _superlative(row: PlanRow) -> str:
    return "Cheapest" if row.usd is not None else "Fastest"


def _bill(row: PlanRow) -> str:
    if row.hours is None:
        return ""
    time = f" in {hours_words(row.hours)}"
    if row.usd is None:
        return time
    return f", {dollar_words(row.usd)} ({row.usd.low:,.0f} to {row.usd.high:,.0f}){time}"


def _as_good(best: PlanRow, other: PlanRow) -> bool:
    """True if the ranges of the figures that decide the order overlap."""
    if other.objection:
        return False
    if best.usd is not None and other.usd is not None:
        return other.usd.low <= best.usd.high
    return best.usd is None and other.units_per_s.high >= best.units_per_s.low


def _command(offer: ClusterOffer, row: PlanRow, script: str, arguments: Sequence[str]) -> str:
    if row.whatifs:
        return f"The code: {_apply(script, row, arguments)}"
    if (written := offer.writable) is None:
        return "Skyline does not write the code of this strategy: the script has to be changed by hand."
    return f"Skyline writes the code of {written.label}{_bill(written)}: {_apply(script, written, arguments)}"


def _apply(script: str, row: PlanRow, arguments: Sequence[str]) -> str:
    return shlex.join(("skyline", "apply", script, *row.whatifs, *arguments))


def _table(found: ClusterOffers) -> TextTable:
    planned = _planned(found)
    paid = any(row.hours for _, row in planned)
    columns = (
        Column("cluster", left=True),
        Column("GPU", left=True),
        Column("GPUs"),
        Column("strategy", left=True, cut="end"),
        Column("step"),
        Column(f"{found.unit}/s"),
        *((Column("time"), Column("cost")) if paid else ()),
        Column("limited by", left=True, cut="end", spared=1),
    )
    return TextTable(columns, tuple(Row(tuple(_cells(offer, row, paid))) for offer, row in planned))


def _cells(offer: ClusterOffer, row: PlanRow, paid: bool) -> Iterator[Cell]:
    tone = "dim" if row.objection else ""
    texts = [offer.cluster, offer.gpu, str(row.gpus), row.label]
    texts += [units.format_ms_interval(row.step_ms), rate_words(row.units_per_s)]
    texts += [hours_words(row.hours), dollar_words(row.usd)] if paid else []
    return (Cell(text, tone) for text in (*texts, row.objection or row.limit))
