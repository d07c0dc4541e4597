"""A cluster: nodes of equal GPUs, the links inside and between them, and the price."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from skyline.bounded_read import LARGEST_TEXT_BYTES, read_bounded
from skyline.errors import UsageError
from skyline.lazy_dataclass import dataclass
from skyline.predict.gpu_spec import GpuSpec
from skyline.predict.gpus import gpu_named
from skyline.toml import converted, parsed_toml


class ClusterLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A link: GB/s in one direction and the latency of a message in µs."""

    gb_s: Annotated[float, Meta(ge=0.01, le=1e5)]
    latency_us: Annotated[float, Meta(ge=0, le=1e5)]


class _Description(msgspec.Struct, forbid_unknown_fields=True):
    """The file format that describes a cluster."""

    gpu: str
    nodes: Annotated[int, Meta(ge=1, le=65536)]
    gpus_per_node: Annotated[int, Meta(ge=1, le=256)]
    inside: ClusterLink
    between: ClusterLink
    name: str = ""
    topology: Literal["switch", "ring", "pcie", "ethernet"] = "switch"
    usd_per_node_hour: Annotated[float, Meta(ge=0, le=1e5)] | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """A described cluster. ``inside`` is one GPU's link inside its node, ``between`` one node's whole network."""

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
        """The cluster with as many equal nodes as ``count`` GPUs need. Fewer GPUs than a node's are a part of it.

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

    def sizes(self, text: str) -> list[ClusterSpec]:
        """The cluster in each size: ``64``, or doublings as in ``8..512``. As described if the text is empty.

        Raises:
            UsageError: the text is no number of GPUs, or no whole number of nodes.
        """
        if not text.strip():
            return [self]
        found = re.fullmatch(r"(\d{1,6})(?:\.\.(\d{1,6}))?", text.strip())
        if not found or int(found[1]) < 1 or (found[2] and int(found[2]) < int(found[1])):
            raise UsageError(f"{text!r} is not a number of GPUs", hint="Example: 64 or 8..512")
        sizes = [int(found[1])]
        while found[2] and sizes[-1] * 2 <= int(found[2]):
            sizes.append(sizes[-1] * 2)
        return [self.with_gpus(size) for size in sizes]


def cluster_names() -> tuple[str, ...]:
    """The names of the clusters that come with Skyline."""
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
            hint=f"Available: {', '.join(cluster_names())}; or give a .toml file.",
        )
    entry = files("skyline.plan").joinpath("clusters", f"{name.casefold()}.toml")
    return cluster_from(entry.read_text(encoding="utf-8"), name)


def cluster_from(text: str, where: str) -> ClusterSpec:
    """The cluster that a TOML text describes.

    Raises:
        UsageError: a key is missing, unknown or out of range; the message names it.
    """
    described = converted(
        parsed_toml(text, where), _Description, where, hint="docs/plan.md shows an example."
    )
    return ClusterSpec(
        name=described.name or Path(where).stem,
        gpu=gpu_named(described.gpu),
        nodes=described.nodes,
        gpus_per_node=described.gpus_per_node,
        inside=described.inside,
        between=described.between,
        topology=described.topology,
        usd_per_node_hour=described.usd_per_node_hour,
        source=described.source or where,
    )
