"""Ranges that hold on a person's own scripts: factors from the verifications in the ledger (conformal prediction)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from skyline.interval import Interval
from skyline.ledger.entry import Conditions, LedgerEntry
from skyline.whatif.conformal import ScoredRange, factor_of


def range_factors(entries: Iterable[LedgerEntry], machine: Conditions) -> dict[str, float]:
    """By what-if, or combination, the factor for its ranges on this machine; none with fewer than 20 verifications."""
    cases: defaultdict[str, list[ScoredRange]] = defaultdict(list)
    for entry in entries:
        said, found = entry.predicted, entry.measurement
        if found is None or not entry.counts or not entry.machine.same_as(machine):
            continue
        ends = (said.iteration_ms, said.low_ms, said.high_ms)
        if min(*ends, said.baseline_ms, found.ratio) > 0:
            ratio = Interval(*(end / said.baseline_ms for end in ends))
            cases[entry.whatif].append(ScoredRange(ratio, found.ratio))
    factors = {name: factor_of(own) for name, own in cases.items()}
    return {name: factor for name, factor in factors.items() if factor is not None}
