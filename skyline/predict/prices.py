"""The price of a GPU hour: cloud instances at dated list prices, and the user's own prices."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import find, gpus
from skyline.predict.own_table import TableEntry, own_entries


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An instance for rent by the hour, with ``gpus`` GPUs named ``gpu``.

    ``usd_per_hour`` is for the whole instance including the host, without storage, traffic and taxes. ``date`` is the
    date of the price (``2025-06``), ``source`` its origin. ``own``: the user's own figure.
    """

    gpu: str
    provider: str
    instance: str
    region: str
    gpus: Annotated[int, Meta(ge=1, le=1024)]
    usd_per_hour: Annotated[float, Meta(ge=0, le=10_000)]
    date: str
    source: str
    own: bool = False

    @property
    def usd_per_gpu_hour(self) -> float:
        """The price per GPU. It is paid for all GPUs of the instance, including idle ones."""
        return self.usd_per_hour / self.gpus


def prices_of(gpu: GpuSpec, provider: str = "") -> tuple[Price, ...]:
    """Prices of a GPU, lowest price per GPU first. The user's own prices replace all others. Empty if none is known.

    ``provider`` selects the prices of one provider, in any spelling.

    Raises:
        UsageError: the user's file cannot be used.
    """
    own = [price for price in own_prices() if price.gpu == gpu.name]
    found = own or [price for price in listed_prices() if price.gpu == gpu.name]
    if provider:
        found = [price for price in found if price.provider.casefold() == provider.casefold()]
    return tuple(sorted(found, key=lambda price: (price.usd_per_gpu_hour, price.gpus)))


def check_provider(provider: str) -> None:
    """Raise UsageError for a provider without known prices, with the known providers."""
    known = dict.fromkeys(price.provider for price in (*listed_prices(), *own_prices()))
    if provider.casefold() not in {name.casefold() for name in known}:
        raise UsageError(f"no price of {provider} is known", hint=f"Available: {', '.join(known)}.")


@cache
def listed_prices() -> tuple[Price, ...]:
    """The price table that ships with Skyline."""
    return tuple(
        msgspec.json.decode(files("skyline.predict").joinpath("prices.json").read_bytes(), type=list[Price])
    )


def own_prices() -> tuple[Price, ...]:
    """The prices of the user's file.

    Raises:
        UsageError: an entry cannot be used; the message names it.
    """
    known = gpus()
    return tuple(_price(entry, known) for entry in own_entries("price"))


def _price(entry: TableEntry, known: tuple[GpuSpec, ...]) -> Price:
    values: dict[str, Any] = {
        "provider": "yours",
        "instance": "",
        "region": "",
        "gpus": 1,
        "source": str(entry.path),
        **entry.values,
        "date": str(entry.values.get("date", "")),
        "own": True,
    }
    price = entry.converted(values, Price)
    try:
        gpu = find(known, price.gpu)
    except UsageError as error:
        raise entry.wrong(f"gpu: {error.message}", error.hint) from None
    return msgspec.structs.replace(price, gpu=gpu.name, instance=price.instance or gpu.name)
