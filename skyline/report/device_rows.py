"""A script on several GPUs, as rows: ``skyline.devices/1``."""

from __future__ import annotations

from skyline.analysis.gpu_costs import GpuRunCost, Span
from skyline.lazy_dataclass import dataclass

DEVICES_SCHEMA = "skyline.devices/1"


@dataclass(frozen=True, slots=True)
class PriceReport:
    """Price of an hour: ``usd_per_hour`` of the whole instance, of which one GPU's share is ``usd_per_gpu_hour``."""

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
    """The largest batch size that fits: ``traced`` at that size, or extrapolated; ``reason`` where unknown."""

    size: int | None
    traced: bool
    larger_untried: bool
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceReport:
    """One GPU; bytes, ms, and what ``GpuRunCost`` says. ``as_is`` is the script unchanged, whether it fits or not.

    ``fullest`` is at the largest batch size that fits and was traced, None where none does. ``prices`` are cheapest
    first, and costs are at the first.
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
    """The queries of the script to its GPU; it was traced again for GPUs with other answers."""
    answer: str
    """The fastest and the cheapest GPU for the unchanged script, in sentences."""
    devices: tuple[DeviceReport, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    module: str = ""
    """The dotted name under which the script is run, as by ``python -m``; empty where it is run as a file."""
