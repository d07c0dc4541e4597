"""The answer of ``skyline plan`` for several clusters: the best strategy on each, the best cluster first."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from skyline.lazy_dataclass import dataclass
from skyline.report.plan_order import Standing, ordered
from skyline.report.plan_report import PlanReport, PlanRow

OFFERS_SCHEMA = "skyline.plan-clusters/1"


@dataclass(frozen=True, slots=True)
class ClusterOffer:
    """One cluster. ``row`` is its best strategy, ``writable`` the best one that ``skyline apply`` writes.

    ``advice`` is the reason if there is no row.
    """

    cluster: str
    gpu: str
    row: PlanRow | None
    writable: PlanRow | None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ClusterOffers:
    """``skyline.plan-clusters/1``: the best offer first; clusters without a valid strategy are last."""

    schema: str
    provenance: str
    model: str
    unit: str
    offers: tuple[ClusterOffer, ...]


def offer_of(report: PlanReport) -> ClusterOffer:
    """The best row of a plan: by cost if it is known, else by throughput; see ``plan_order``."""
    ranked = [report.rows[at] for at in ordered([_standing(row) for row in report.rows])]
    written = [row for row in ranked if row.whatifs]
    return ClusterOffer(
        report.cluster,
        report.gpu,
        ranked[0] if ranked else None,
        written[0] if written else None,
        report.advice,
    )


def no_offer(cluster: str, gpu: str, reason: str) -> ClusterOffer:
    """A cluster for which no plan is possible."""
    return ClusterOffer(cluster, gpu, None, None, reason)


def offers_of(reports: Sequence[PlanReport], failed: Sequence[ClusterOffer] = ()) -> ClusterOffers:
    """The offers in their order; ``reports`` has at least one."""
    first = reports[0]
    offers = sorted((*map(offer_of, reports), *failed), key=_order)
    return ClusterOffers(OFFERS_SCHEMA, first.provenance, first.model, first.unit, tuple(offers))


def _standing(row: PlanRow) -> Standing:
    if row.usd is not None:
        return Standing(bool(row.objection), row.usd, bool(row.whatifs))
    return Standing(bool(row.objection), row.units_per_s.inverse(1.0), bool(row.whatifs), row.gpus)


def _rank(row: PlanRow) -> tuple[bool, float, float]:
    return bool(row.objection), row.usd.value if row.usd is not None else inf, -row.units_per_s.value


def _order(offer: ClusterOffer) -> tuple[bool, bool, float, float]:
    missed, usd, rate = _rank(offer.row) if offer.row is not None else (True, inf, 0.0)
    return offer.row is None, missed, usd, rate
