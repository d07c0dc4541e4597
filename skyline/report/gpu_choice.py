"""The fastest and the cheapest of several GPUs for a script, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from skyline import units
from skyline.analysis.gpu_costs import Span
from skyline.memory.peak import Fit
from skyline.report.device_rows import DeviceReport
from skyline.report.short_figures import TIMES, fitting_unit, short_range

_ALIKE = 1.005
"""Times within this factor of the least count as equal, and the cheaper GPU comes first."""
_WAITING = 0.5
"""The busy share of the time below which a GPU mostly waits."""


def gpu_choice(devices: Sequence[DeviceReport], span: Span) -> str:
    """The fastest and the cheapest GPU for the unchanged script, and a sentence if that GPU mostly waits."""
    usable = [one for one in devices if one.fits != Fit.TOO_LARGE.value]
    if not usable:
        return f"The unchanged script fits on none of: {', '.join(one.gpu for one in devices)}."
    least_s = min(one.as_is.time_s.value for one in usable)
    alike = [one for one in usable if one.as_is.time_s.value <= _ALIKE * least_s]
    fastest, cheapest = min(alike, key=_usd), min(usable, key=_usd)
    seconds, factor = fitting_unit((one.as_is.time_s.value for one in (fastest, cheapest)), TIMES)
    work, takes = ("an epoch", "takes") if span.epoch else (f"{span.iterations:,.0f} iterations", "take")

    def figures(one: DeviceReport) -> str:
        cost = one.as_is.cost_usd
        time = f"{short_range(one.as_is.time_s.scaled(factor))} {seconds}"
        return f"{time}, ${short_range(cost)}" if cost is not None else time

    words = f"{fastest.gpu}: {work} of the unchanged script {takes} {figures(fastest)}"
    if len(usable) > 1 and cheapest is fastest:
        words = f"Fastest and cheapest is the {words}"
    elif len(usable) > 1 and cheapest.as_is.cost_usd is not None:
        words = f"Fastest is the {words}. Cheapest is the {cheapest.gpu}: {figures(cheapest)}"
    elif len(usable) > 1:
        words = f"Fastest is the {words}"
    sentences = [f"{words}."]
    if fastest.as_is.busy_share < _WAITING:
        share = units.format_share(fastest.as_is.busy_share)
        sentences.append(
            f"The {fastest.gpu} computes for {share} of the time: a larger batch or faster loading gains more than a "
            "faster GPU."
        )
    return " ".join(sentences)


def _usd(one: DeviceReport) -> float:
    """The cost for ranking; GPUs without a price come last."""
    return one.as_is.cost_usd.value if one.as_is.cost_usd is not None else inf
