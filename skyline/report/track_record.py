"""The ledger's record of predictions of a kind, in words."""

from __future__ import annotations

from skyline import units
from skyline.interval import Interval
from skyline.ledger.record import TrackRecord


def record_words(record: TrackRecord) -> str:
    """``median error +3 %, ±5 % in 4 of 5 cases; the interval held 4 of 5``."""
    cases = f"{record.cases} case{'s' * (record.cases != 1)}"
    words = [
        (
            f"median error {units.format_share_delta(record.median_error)}, ±{units.format_share(record.within)} in "
            f"{record.inside} of {cases}"
        ),
        f"the interval held {record.held}",
    ]
    if record.scripts != record.cases:
        words.append(f"{record.scripts} script{'s' * (record.scripts != 1)}")
    if record.discarded:
        words.append(f"{record.discarded} discarded")
    return "; ".join(words)


def correction_words(record: TrackRecord, iteration_ms: Interval) -> str:
    """A prediction as corrected by the ledger; empty where the ledger has too few cases."""
    found = record.correction
    if found is None:
        return ""
    factor = Interval(found.factor, found.low, found.high)
    corrected = factor.scaled(iteration_ms.value)
    return (
        f"corrected by your ledger: {units.format_ms_interval(corrected)} "
        f"({units.format_share_delta(found.factor - 1)}, from {record.cases} verifications here)"
    )
