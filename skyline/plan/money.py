"""Time and money to train on a number of tokens or samples."""

from __future__ import annotations

import re

from skyline.errors import UsageError
from skyline.interval import Interval
from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec

_UNITS_S = {"min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_FACTORS = {"": 1.0, "K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Bill:
    """Time and cost of a training. ``usd`` is None if the price of the cluster is unknown. Whole nodes are charged."""

    hours: Interval
    usd: Interval | None


def bill(cluster: ClusterSpec, units: float, units_per_s: Interval) -> Bill:
    """The time and cost of ``units`` of work at a rate."""
    hours = units_per_s.inverse(units / 3600)
    price = cluster.usd_per_node_hour
    return Bill(hours, None if price is None else hours.scaled(price * cluster.nodes))


def read_budget_usd(text: str) -> float:
    """US dollars from ``$5000``, ``5000`` or ``5k``.

    Raises:
        UsageError: the text is no amount.
    """
    found = re.fullmatch(r"\$?([0-9][0-9,]*(?:\.[0-9]+)?)([kKM]?)", text.strip())
    if not found:
        raise UsageError(f"{text!r} is not an amount of US dollars", hint="Example: --budget '$5000'")
    return float(found[1].replace(",", "")) * _FACTORS[found[2].upper()]


def read_deadline_s(text: str) -> float:
    """Seconds from ``3d``, ``12h``, ``90min`` or ``2w``.

    Raises:
        UsageError: the text is no time.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(min|h|d|w)", text.strip())
    if not found or float(found[1]) <= 0:
        raise UsageError(f"{text!r} is not a time", hint="Example: --deadline 3d, 12h or 90min")
    return float(found[1]) * _UNITS_S[found[2]]


def read_count(text: str) -> float:
    """A count from ``300B``, ``2.5M`` or ``1000``.

    Raises:
        UsageError: the text is no count.
    """
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([kKMBT]?)", text.strip())
    if not found or float(found[1]) <= 0:
        raise UsageError(f"{text!r} is not a number of tokens or samples", hint="Example: --tokens 300B")
    return float(found[1]) * _FACTORS[found[2].upper()]
