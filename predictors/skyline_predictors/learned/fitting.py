"""Finds the constants of the physics by random steps from a fixed seed. A step is kept if it reduces the error."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from skyline_predictors.call_time import shown_us
from skyline_predictors.learned import family as families
from skyline_predictors.learned.convolution import ConvolutionConstants
from skyline_predictors.learned.family import Family, Physics
from skyline_predictors.learned.machine import RateConstants, machine
from skyline_predictors.learned.measurements import KernelMeasurements
from skyline_predictors.learned.product import ProductConstants
from skyline_predictors.learned.stream import StreamConstants

Floats = NDArray[np.float64]
_ROWS = 500
"""Number of kernels of each GPU that the search uses."""
_TELLING = 0.5
"""Lower limit of ``KernelMeasurements.telling`` for products and convolutions."""
_OFFSET_COUNTS = 0.5
"""Weight of a GPU's overall bias relative to the scatter of its kernels."""
_MEMORY = ("stacked_share", "plain_share")
"""Shares that are fitted to elementwise work, which has the largest sizes. All other kernels use the same."""
_Constants = TypeVar("_Constants", ProductConstants, StreamConstants)

_PRODUCT = ProductConstants(
    rates=RateConstants(0.95, 0.8, 0.95, 500.0),
    tile_share={1024: 0.35, 4096: 0.75, 8192: 0.95, 16384: 1.0, 32768: 1.0},
    fill=16.0,
    resident=16384.0,
    saturating=8192.0,
    lone=0.5,
    bandwidth_share=0.85,
    overlap=3.0,
    split_us=3.0,
    turn_us=3.0,
    exposed=0.2,
)
_STREAM = StreamConstants(
    stacked_share=0.88,
    plain_share=0.76,
    usable=0.7,
    l2_share=0.5,
    least_us=2.0,
    each=0.0,
    lead=0.0,
)
_SOFTMAX = msgspec.structs.replace(_STREAM, each=20.0, lead=50.0)
_NORM = msgspec.structs.replace(_STREAM, each=40.0, lead=300.0)
_CONVOLUTION = ConvolutionConstants(
    **{
        **{name: getattr(_PRODUCT, name) for name in ProductConstants.__struct_fields__},
        "rates": RateConstants(0.95, 0.8, 0.8, 500.0),
    },
    saving=1.5,
    transform_share=0.7,
)
START = Physics(_PRODUCT, _CONVOLUTION, _STREAM, _SOFTMAX, _NORM)
_CEILINGS = {
    "tile_share": 1.05,
    "bandwidth_share": 0.97,
    "stacked_share": 0.97,
    "plain_share": 0.97,
    "l2_share": 1.0,
    "lone": 1.0,
    "usable": 1.0,
    "exposed": 1.0,
    "saving": 2.25,
    "transform_share": 0.97,
}
_FLOORS = {"overlap": 1.5, "least_us": 1.0, "saving": 1.0}


def fitted(
    family: Family, measured: Sequence[KernelMeasurements], start: Physics, steps: int, seed: int
) -> tuple[Physics, float]:
    """The constants of one family, and the mean absolute logarithm of measured over predicted at the end."""
    chooser = random.Random(seed)
    few = [_sample(family, one, chooser) for one in measured]
    few = [one for one in few if len(one.time_us)]
    if family in (Family.SOFTMAX, Family.NORMALIZATION):
        shares = {name: getattr(start.elementwise, name) for name in _MEMORY}
        own = msgspec.structs.replace(getattr(start, family.value), **shares)
        start = msgspec.structs.replace(start, **{family.value: own})
    kept = () if family is Family.ELEMENTWISE else _MEMORY

    def loss(physics: Physics) -> float:
        return float(np.mean([_off(family, physics, one) for one in few]))

    best, lowest = start, loss(start)
    for step in range(steps):
        constants = getattr(best, family.value)
        size = 0.25 if step < steps / 2 else 0.07
        tried = msgspec.structs.replace(best, **{family.value: _stepped(constants, chooser, size, kept)})
        found = loss(tried)
        if found < lowest:
            best, lowest = tried, found
    return best, lowest


def _sample(family: Family, one: KernelMeasurements, chooser: random.Random) -> KernelMeasurements:
    # A call of nearly the shortest time informs about the rate of caches, but not about tiles.
    tiled = family in (Family.PRODUCT, Family.CONVOLUTION)
    kept = np.flatnonzero(one.reliable & (one.telling > (_TELLING if tiled else -1.0)))
    chosen = sorted(chooser.sample(range(len(kept)), min(_ROWS, len(kept))))
    return one.part(kept[chosen])


def _off(family: Family, physics: Physics, one: KernelMeasurements) -> float:
    constants = physics.convolution if family is Family.CONVOLUTION else physics.product
    times = families.physics_us(family, one.sizes, machine(one.gpu, constants.rates), physics)
    logs = np.log(one.time_us / shown_us(times, one.shortest_us))
    offset = float(np.median(logs))
    scatter = float(np.average(np.abs(logs - offset), weights=one.weight))
    return scatter + _OFFSET_COUNTS * abs(offset)


def _stepped(
    constants: _Constants, chooser: random.Random, size: float, kept: Sequence[str] = ()
) -> _Constants:
    """The constants with one of them multiplied by a random factor within its bounds. Constants in ``kept`` stay."""
    knobs = _knobs(constants)
    change = chooser.choice([knob for name, knob in knobs.items() if name not in kept])
    factor = math.exp(chooser.gauss(0, size))
    return change(factor)


def _knobs(constants: _Constants) -> Mapping[str, Callable[[float], _Constants]]:
    knobs: dict[str, Callable[[float], _Constants]] = {}

    def bounded(name: str, value: float) -> float:
        return max(_FLOORS.get(name, 0.0), min(_CEILINGS.get(name, math.inf), value))

    for name in constants.__struct_fields__:
        held = getattr(constants, name)
        if isinstance(held, dict):
            for key in held:

                def of_key(
                    factor: float, name: str = name, held: dict[int, float] = held, key: int = key
                ) -> _Constants:
                    changed = {**held, key: bounded(name, held[key] * factor)}
                    return msgspec.structs.replace(constants, **{name: changed})

                knobs[f"{name}.{key}"] = of_key
        elif isinstance(held, RateConstants):
            # The other rates belong to the schedulers. Few were measured, some of them on hot boards, so they
            # are not fitted.
            def of_settling(factor: float, held: RateConstants = held) -> _Constants:
                rates = msgspec.structs.replace(held, settles_us=held.settles_us * factor)
                return msgspec.structs.replace(constants, rates=rates)

            knobs["settles_us"] = of_settling
        else:

            def of_field(factor: float, name: str = name, held: float = held) -> _Constants:
                return msgspec.structs.replace(constants, **{name: bounded(name, held * factor)})

            knobs[name] = of_field
    return knobs
