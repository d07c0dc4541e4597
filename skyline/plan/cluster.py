"""A cluster: nodes of equal GPUs, the links inside and between them, and the price."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named

_TOPOLOGIES = ("switch", "ring", "pcie", "ethernet")
_TOP = (
    "name",
    "gpu",
    "nodes",
    "gpus_per_node",
    "topology",
    "usd_per_node_hour",
    "source",
    "inside",
    "between",
)
_LINK = ("gb_s", "latency_us")


@dataclass(frozen=True, slots=True)
class ClusterLink:
    """A link: GB/s in one direction and the latency of a message in µs."""

    gb_s: float
    latency_us: float


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """``inside`` is the link of one GPU inside its node; ``between`` is all network of one node together."""

    name: str
    gpu: GpuSpec
    nodes: int
    gpus_per_node: int
    inside: ClusterLink
    between: ClusterLink
    topology: str = "switch"
    usd_per_node_hour: float | None = None
    source: str = ""

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return self.nodes * self.gpus_per_node

    def with_gpus(self, count: int) -> ClusterSpec:
        """As many equal nodes as ``count`` GPUs need; fewer than a node's GPUs are a part of one node.

        Raises:
            UsageError: the count is not a whole number of nodes.
        """
        if count <= self.gpus_per_node:
            return replace(self, nodes=1, gpus_per_node=count, between=self.between)
        if count % self.gpus_per_node:
            raise UsageError(
                f"{count} GPUs are not a whole number of nodes of {self.name}",
                hint=f"A node has {self.gpus_per_node} GPUs.",
            )
        return replace(self, nodes=count // self.gpus_per_node)


def cluster_names() -> tuple[str, ...]:
    """The names of the described clusters that come with Skyline."""
    folder = files("skyline.plan").joinpath("clusters")
    return tuple(
        sorted(one.name.removesuffix(".toml") for one in folder.iterdir() if one.name.endswith(".toml"))
    )


def cluster_named(name: str) -> ClusterSpec:
    """A cluster by its name, or from a TOML file.

    Raises:
        UsageError: there is no such cluster, or the file cannot be used.
    """
    if name.endswith(".toml"):
        path = Path(name)
        try:
            data = read_bounded(path, LARGEST_TEXT_BYTES)
        except OSError as error:
            raise UsageError(f"{name} cannot be read: {error.strerror or error}") from None
        return cluster_from(data.decode("utf-8", "replace"), name)
    if name.casefold() not in cluster_names():
        raise UsageError(
            f"no cluster {name} is known",
            hint=f"There are: {', '.join(cluster_names())}; or give a .toml file.",
        )
    entry = files("skyline.plan").joinpath("clusters", f"{name.casefold()}.toml")
    return cluster_from(entry.read_text(encoding="utf-8"), name)


def cluster_from(text: str, where: str) -> ClusterSpec:
    """The cluster that a TOML text describes.

    Raises:
        UsageError: a key is missing, unknown or out of range; the message names it.
    """
    try:
        table: dict[str, object] = parsed_toml(text)
    except ValueError as error:
        raise UsageError(f"{where} is not TOML: {error}") from None
    _known(table, _TOP, where)
    gpu = gpu_named(_text(table, "gpu", where))
    topology = _text(table, "topology", where, "switch")
    if topology not in _TOPOLOGIES:
        raise UsageError(f"{where}: topology must be one of {', '.join(_TOPOLOGIES)}, not {topology!r}")
    price = table.get("usd_per_node_hour")
    return ClusterSpec(
        name=_text(table, "name", where, Path(where).stem),
        gpu=gpu,
        nodes=_whole(table, "nodes", 65536, where),
        gpus_per_node=_whole(table, "gpus_per_node", 256, where),
        inside=_link(table, "inside", where),
        between=_link(table, "between", where),
        topology=topology,
        usd_per_node_hour=None if price is None else _number(table, "usd_per_node_hour", 0, 1e5, where),
        source=_text(table, "source", where, where),
    )


def _link(table: dict[str, object], key: str, where: str) -> ClusterLink:
    value = table.get(key)
    if not isinstance(value, dict):
        raise UsageError(
            f"{where}: the table [{key}] is missing", hint="As in: [inside] gb_s = 300, latency_us = 2"
        )
    link, place = cast("dict[str, object]", value), f"{where} [{key}]"
    _known(link, _LINK, place)
    return ClusterLink(_number(link, "gb_s", 0.01, 1e5, place), _number(link, "latency_us", 0, 1e5, place))


def _known(table: dict[str, object], keys: tuple[str, ...], where: str) -> None:
    unknown = [key for key in table if key not in keys]
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]}", hint=f"There are: {', '.join(keys)}.")


def _text(table: dict[str, object], key: str, where: str, default: str | None = None) -> str:
    value = table.get(key, default)
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: {key} must be a text" if key in table else f"{where}: {key} is missing")
    return value


def _number(table: dict[str, object], key: str, low: float, high: float, where: str) -> float:
    value = table.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise UsageError(f"{where}: {key} must be a number" if key in table else f"{where}: {key} is missing")
    if not low <= value <= high:
        raise UsageError(f"{where}: {key} must be {low:g} to {high:g}, not {value:g}")
    return float(value)


def _whole(table: dict[str, object], key: str, high: int, where: str) -> int:
    value = _number(table, key, 1, high, where)
    if value != int(value):
        raise UsageError(f"{where}: {key} must be a whole number")
    return int(value)


def parsed_toml(text: str) -> dict[str, Any]:
    """A TOML text as nested tables. Raises ValueError."""
    return _toml().loads(text)


def _toml() -> Any:
    """The TOML reader: Python's own from 3.11 on, else the library that it came from."""
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    import tomli

    return tomli
