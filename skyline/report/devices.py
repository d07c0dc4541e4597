"""A script on several GPUs, as the JSON that other programs read: ``skyline.devices/1``."""

from __future__ import annotations

from collections.abc import Sequence

from skyline import units
from skyline.analysis.gpu_costs import Span, run_on, span_of
from skyline.memory.peak import ASSUMED_CONTEXT_BYTES, ASSUMED_FRAGMENTS
from skyline.predict.energy import COMPUTING, WAITING, WORLD_G_PER_KWH
from skyline.predict.outlook import Outlook
from skyline.predict.prices import Price, prices_of
from skyline.report.basis import loading_basis
from skyline.report.device_rows import (
    DEVICES_SCHEMA,
    DeviceReport,
    DevicesReport,
    LargestBatchReport,
    PriceReport,
)
from skyline.report.gpu_choice import gpu_choice


def devices_report(
    found: Sequence[Outlook], *, provider: str = "", grid_g_per_kwh: float | None = None
) -> DevicesReport:
    """The report of a script on GPUs; ``provider`` selects prices, ``grid_g_per_kwh`` is for electricity."""
    first = found[0].profile
    grid = WORLD_G_PER_KWH if grid_g_per_kwh is None else grid_g_per_kwh
    span = span_of(first)
    devices = tuple(_device(one, span, prices_of(one.gpu, provider), grid) for one in found)
    return DevicesReport(
        schema=DEVICES_SCHEMA,
        created=first.created,
        script=first.script,
        arguments=first.arguments,
        predictor=first.prediction.predictor if first.prediction is not None else "",
        batch_size=first.batch_size,
        span=span,
        grid_g_per_kwh=grid,
        traced_for_each=first.asked_of_gpu,
        answer=gpu_choice(devices, span),
        devices=devices,
        assumptions=(
            *(loading_basis(first.prediction) if first.prediction is not None else ()),
            *_assumptions(devices, grid, default_grid=grid_g_per_kwh is None),
        ),
        notes=tuple(dict.fromkeys(note for one in found for note in one.profile.notes)),
        module=first.module,
    )


def _device(one: Outlook, span: Span, prices: Sequence[Price], grid: float) -> DeviceReport:
    price = prices[0] if prices else None
    prediction = one.profile.prediction
    as_is = run_on(one.profile, one.gpu, span, price, grid)
    if one.fullest is None:
        fullest = None
    elif one.fullest is one.profile:
        fullest = as_is
    else:
        fullest = run_on(one.fullest, one.gpu, span, price, grid)
    return DeviceReport(
        gpu=one.gpu.name,
        full_name=one.gpu.full_name,
        own=one.gpu.own,
        memory_bytes=one.gpu.memory_bytes,
        usable_bytes=one.usable_bytes,
        fits=one.fits.value,
        largest_batch=LargestBatchReport(
            one.largest.size, one.largest.traced, one.largest.larger_untried, one.largest.reason
        ),
        as_is=as_is,
        fullest=fullest,
        prices=tuple(_price(price) for price in prices),
        power_limit_watts=one.gpu.board_power_watts,
        basis=prediction.basis if prediction is not None else "",
        unmeasured_share=prediction.unmeasured_share if prediction is not None else 0.0,
    )


def _price(price: Price) -> PriceReport:
    return PriceReport(
        price.provider,
        price.instance,
        price.region,
        price.gpus,
        price.usd_per_hour,
        price.usd_per_gpu_hour,
        price.date,
        price.source,
        price.own,
    )


def _assumptions(devices: Sequence[DeviceReport], grid: float, *, default_grid: bool) -> tuple[str, ...]:
    """The basis of the figures, in sentences."""
    context, fragments = units.format_bytes(ASSUMED_CONTEXT_BYTES), f"{ASSUMED_FRAGMENTS * 100:.0f} %"
    said = [
        "Times of the host (Python, kernel launches) are typical costs, the same for every GPU.",
        (
            f"A script fits if all tensors of the traced iteration fit, with {context} reserved for the CUDA context "
            f"and {fragments} for fragmentation (both assumed)."
        ),
    ]
    if any(one.prices for one in devices):
        said.append(
            "Prices are list prices of the date given, for the share of one GPU, without storage, traffic and taxes."
        )
    busy, idle = COMPUTING, WAITING
    said.append(
        f"Energy is modelled, not measured: {_percent(busy.value)} of the board's limit while a kernel runs "
        f"({_percent(busy.low)} to {_percent(busy.high)}), {_percent(idle.value)} while none does "
        f"({_percent(idle.low)} to {_percent(idle.high)}); host and cooling are not included."
    )
    source = (
        ", the world's average of 2024 (Ember); --grid sets yours" if default_grid else ", as you gave it"
    )
    said.append(f"Carbon dioxide at {grid:g} g/kWh{source}.")
    return tuple(said)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
