"""A script on several GPUs, as rows: ``skyline.devices/1``."""

from __future__ import annotations

from skyline.analysis.gpu_costs import GpuRunCost, Span
from skyline.lazy_dataclass import dataclass

DEVICES_SCHEMA = "skyline.devices/1"


@dataclass(frozen=True, slots=True)
class PriceReport:
    """The price of an hour: ``usd_per_hour`` for an instance, ``usd_per_gpu_hour`` for each of its GPUs."""

    provider: str
    instance: str
    region: str
    gpus: int
    usd_per_hour: float
    usd_per_gpu_hour: float
    date: str
    source: str
    own: bool


@dataclass(frozen=True, slots=True)
class LargestBatchReport:
    """The largest batch size that fits: ``traced`` at that size, or extrapolated; ``reason`` if unknown."""

    size: int | None
    traced: bool
    larger_untried: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One GPU, with bytes, ms, and a ``GpuRunCost``. ``as_is`` is the unchanged script, even if it is too large.

    ``fullest`` is the largest batch size that fits and was traced, None if none does. ``prices`` have the
    cheapest first, and costs use the first price.
    """

    gpu: str
    full_name: str
    own: bool
    memory_bytes: int
    usable_bytes: int
    fits: str
    largest_batch: LargestBatchReport
    as_is: GpuRunCost
    fullest: GpuRunCost | None
    prices: tuple[PriceReport, ...]
    power_limit_watts: int
    basis: str
    unmeasured_share: float


@dataclass(frozen=True, slots=True)
class DevicesReport:
    """``skyline.devices/1``. All costs are for ``span``."""

    schema: str
    created: str
    script: str
    arguments: tuple[str, ...]
    predictor: str
    batch_size: int | None
    span: Span
    grid_g_per_kwh: float
    traced_for_each: tuple[str, ...]
    """The script's queries to its GPU; it was traced again for GPUs with other answers."""
    answer: str
    """The fastest and the cheapest GPU for the unchanged script, in sentences."""
    devices: tuple[DeviceReport, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    module: str = ""
    """The dotted name of a script that runs like ``python -m``; empty if it runs as a file."""
