"""The time of collectives: latency per hop and bytes over the bandwidth of the slowest link (alpha-beta model).

Sizes are the bytes of the whole tensor: for an all-gather the gathered tensor, for a reduce-scatter its
input.
"""

from __future__ import annotations

from math import ceil, log2

from skyline.lazy_dataclass import dataclass
from skyline.plan.cluster import ClusterSpec
from skyline.plan.constant import LINK_BETWEEN, LINK_INSIDE


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that communicate: ``size`` in total, ``per_node`` of them on each of their nodes."""

    size: int
    per_node: int

    @property
    def nodes(self) -> int:
        """The number of nodes that the group spans."""
        return ceil(self.size / self.per_node)


def group_of(cluster: ClusterSpec, size: int, stride: int) -> RankGroup:
    """The group of every ``stride``-th rank, in the usual order: neighbouring ranks share a node."""
    return RankGroup(size, max(1, min(size, cluster.gpus_per_node // stride)))


@dataclass(frozen=True, slots=True)
class Fabric:
    """Achieved rates of a cluster's links, in bytes per µs, and their latencies in µs."""

    inside: float
    between: float
    inside_latency_us: float
    between_latency_us: float
    gpus_per_node: int

    @classmethod
    def of(cls, cluster: ClusterSpec) -> Fabric:
        """Stated rates times the share of them that collectives achieve."""
        return cls(
            cluster.inside.gb_s * 1e3 * LINK_INSIDE.value,
            cluster.between.gb_s * 1e3 * LINK_BETWEEN.value,
            cluster.inside.latency_us,
            cluster.between.latency_us,
            cluster.gpus_per_node,
        )

    def rate(self, group: RankGroup) -> float:
        """Bytes per µs of a ring through the group; all groups of a node use its network at the same time."""
        if group.nodes == 1:
            return self.inside
        share = self.between * group.per_node / self.gpus_per_node
        return min(self.inside, share) if group.per_node > 1 else share

    def ring_latency_us(self, group: RankGroup) -> float:
        """The latency of one turn around the ring, without the last hop."""
        crossings = group.nodes if group.nodes > 1 else 0
        hops = group.size - 1
        outside = max(0, crossings - 1)
        return (hops - outside) * self.inside_latency_us + outside * self.between_latency_us


def all_gather_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time of a ring: each rank receives all parts except its own."""
    if group.size <= 1:
        return 0.0
    return fabric.ring_latency_us(group) + size_bytes * (group.size - 1) / group.size / fabric.rate(group)


def reduce_scatter_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time of a ring: the transfers of an all-gather in reverse."""
    return all_gather_us(fabric, group, size_bytes)


def ring_all_reduce_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time of a reduce-scatter and an all-gather."""
    return 2 * all_gather_us(fabric, group, size_bytes)


def tree_all_reduce_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time up and down a tree of nodes, with chains inside nodes: few hops, but all bytes in both directions."""
    if group.size <= 1:
        return 0.0
    hops = ceil(log2(group.nodes)) * fabric.between_latency_us if group.nodes > 1 else 0.0
    inside = (group.per_node - 1) * fabric.inside_latency_us
    return 2 * (hops + inside + size_bytes / fabric.rate(group))


def hierarchical_all_reduce_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time to reduce-scatter inside nodes, all-reduce each part between nodes, and all-gather inside (BlueConnect)."""
    if group.nodes == 1 or group.per_node == 1:
        return ring_all_reduce_us(fabric, group, size_bytes)
    inside = RankGroup(group.per_node, group.per_node)
    between = RankGroup(group.nodes, 1)
    part = size_bytes / group.per_node
    return 2 * all_gather_us(fabric, inside, size_bytes) + ring_all_reduce_us(fabric, between, part)


def all_reduce_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time of the fastest of ring, tree and hierarchical, as a library that chooses by size achieves it."""
    return min(
        ring_all_reduce_us(fabric, group, size_bytes),
        tree_all_reduce_us(fabric, group, size_bytes),
        hierarchical_all_reduce_us(fabric, group, size_bytes),
    )


def sparse_parts(group: RankGroup) -> int:
    """The number of parts into which the gradients are divided: each rank of a node selects in its own part."""
    return 1 if group.nodes == 1 else group.per_node


def sparse_all_reduce_us(fabric: Fabric, group: RankGroup, size_bytes: float, sent: float) -> float:
    """Time to exchange the share ``sent`` of all numbers, with indices that double the bytes, without selection.

    Between nodes it follows HiTopKComm (Shi et al. 2021): a dense reduce-scatter inside nodes, an all-gather
    of the selected numbers of each part between nodes, and one inside. Nodes select different numbers, so the
    amounts add up.
    """
    chosen = 2 * sent * size_bytes
    if group.nodes == 1:
        return all_gather_us(fabric, group, group.size * chosen)
    inside, between = RankGroup(group.per_node, group.per_node), RankGroup(group.nodes, 1)
    together = group.nodes * chosen
    return (
        reduce_scatter_us(fabric, inside, size_bytes)
        + all_gather_us(fabric, between, together / group.per_node)
        + all_gather_us(fabric, inside, together)
    )


def all_to_all_us(fabric: Fabric, group: RankGroup, size_bytes: float) -> float:
    """Time if each rank sends an equal part of its ``size_bytes`` to every other rank."""
    if group.size <= 1:
        return 0.0
    part = size_bytes / group.size
    inside = (group.per_node - 1) * part / fabric.inside
    if group.nodes == 1:
        return (group.size - 1) * fabric.inside_latency_us + inside
    outside = (group.size - group.per_node) * part / (fabric.between / fabric.gpus_per_node)
    return fabric.between_latency_us + max(inside, outside)


def send_us(fabric: Fabric, size_bytes: float, *, same_node: bool) -> float:
    """Time of a message from one rank to another. All ranks of a node send at the same time."""
    if same_node:
        return fabric.inside_latency_us + size_bytes / fabric.inside
    return fabric.between_latency_us + size_bytes * fabric.gpus_per_node / fabric.between
