"""SKY305: a few rows of an embedding take most of its lookups."""

from __future__ import annotations

from skyline.findings.base import Evidence, Finding
from skyline.findings.gain import saved_ms
from skyline.findings.lines import place_of_module
from skyline.lazy_dataclass import dataclass
from skyline.trace.tensor_values import TableAccess, hot_at
from skyline.units import format_bytes, format_share
from skyline.whatif.catalogue.memory import hot_embeddings
from skyline.whatif.catalogue.models import sparse_embedding
from skyline.whatif.composition import detected_in
from skyline.whatif.subject import Subject

_FEW = 0.01
_MOST = 0.5
"""Least share of the lookups in a hundredth of the rows. With Zipf's law the share is 64 % for 200,000 rows,
with uniform lookups it is 1 %."""
_LEAST_BYTES = 8 << 20
"""Least size of all tables. Smaller ones fit entirely into the caches of most processors."""
_TABLES = 4


@dataclass(frozen=True, slots=True)
class SkewedLookups:
    """A hundredth of the rows receives at least half of the lookups, and a what-if exploits that."""

    code: str = "SKY305"

    def check(self, subject: Subject) -> Finding | None:
        """Refers to the construction of the table with the most such lookups; the cost is the saving of the what-if."""
        profile = subject.script
        if profile.values is None:
            return None
        tables = profile.values.tables
        if sum(table.size_bytes for table in tables) < _LEAST_BYTES:
            return None
        skewed = [table for table in tables if _is_skewed(table)]
        cure = _cure(subject)
        if not skewed or cure is None:
            return None
        skewed.sort(key=lambda table: -table.lookups * table.row_bytes)
        first = skewed[0]
        others = f", and so in {len(skewed) - 1} more" if len(skewed) > 1 else ""
        name, cost_ms = cure
        return Finding.at(
            self.code,
            f"{_words(first)}{others}",
            place_of_module(subject, first.path),
            cost_ms,
            name,
            tuple(
                Evidence.at(_evidence(table, profile.values.basis), place_of_module(subject, table.path))
                for table in skewed[:_TABLES]
            ),
        )


def _is_skewed(table: TableAccess) -> bool:
    return bool(table.hot) and hot_at(table.hot, _FEW * table.size_bytes).hit_share >= _MOST


def _words(table: TableAccess) -> str:
    share = hot_at(table.hot, _FEW * table.size_bytes).hit_share
    return f"{_FEW:.0%} of the rows of {table.path} take {share:.0%} of its lookups"


def _evidence(table: TableAccess, basis: str) -> str:
    tenth = hot_at(table.hot, 0.1 * table.size_bytes).hit_share
    return (
        f"{_words(table)}, a tenth takes {format_share(tenth)}; {table.rows:,} rows, {format_bytes(table.size_bytes)}, "
        f"{table.lookups:,.0f} lookups of {table.distinct_rows:,.0f} rows in an iteration, by {basis}"
    )


def _cure(subject: Subject) -> tuple[str, float] | None:
    """The applicable what-if with the largest time saving. If none saves time, the one that saves GPU memory."""
    names = [
        whatif.name
        for whatif in (hot_embeddings.WHATIF, sparse_embedding.WHATIF)
        if detected_in(subject, whatif).applicable
    ]
    gains = {name: saved_ms(subject, name) for name in names}
    best = max(gains, key=lambda name: gains[name], default=None)
    return None if best is None else (best, gains[best])


RULE = SkewedLookups()
