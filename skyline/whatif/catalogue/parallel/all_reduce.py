"""The cost of adding up gradients over the ranks of a job, and the buckets that gradients are gathered into."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyline.lazy_dataclass import dataclass

MIB = 1 << 20
DEFAULT_CAP_MB = 25.0
"""Default of ``bucket_cap_mb`` of ``DistributedDataParallel``."""
_FIRST_BUCKET = MIB
_LATENCY_US = {"gloo": 60.0, "nccl": 8.0}
"""The latency in µs of one empty message in a ring."""
_SLOWEST, _FASTEST = 10.0, 1e5
"""Bounds of the bytes per µs of a link: 10 MB/s, as with 100 Mbit/s Ethernet, to 100 GB/s."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Link:
    """The link between the ranks, as a ring: ``latency_us`` per message, and the rate at which a rank sends.

    An all-reduce of n ranks is 2(n - 1) messages in a row, which carry 2(n - 1)/n of the data past each rank
    (Patarasuk and Yuan, 2009, Bandwidth optimal all-reduce algorithms).
    """

    ranks: int
    latency_us: float
    bytes_per_us: float

    def all_reduce_us(self, size_bytes: float) -> float:
        """The time of one all-reduce, in µs."""
        return self.fixed_us + 2 * (self.ranks - 1) / self.ranks * size_bytes / self.bytes_per_us

    @property
    def fixed_us(self) -> float:
        """The part of an all-reduce's time that does not depend on the data, in µs."""
        return 2 * (self.ranks - 1) * self.latency_us


def latency_us(backend: str) -> float:
    """The latency of one message in µs; an unknown backend takes as long as gloo."""
    return _LATENCY_US.get(backend, _LATENCY_US["gloo"])


def buckets_of(sizes: Sequence[float], cap_mb: float) -> list[tuple[int, int]]:
    """The first and the last gradient of each bucket, in the order in which gradients arrive.

    A bucket is closed by the gradient that makes it as large as its limit. With the default cap, the limit of
    the first bucket is 1 MiB, so that the exchange begins early; with an explicit cap, it is the cap
    (``torch.nn.parallel.DistributedDataParallel``).
    """
    cap = cap_mb * MIB
    limit = min(_FIRST_BUCKET, cap) if cap_mb == DEFAULT_CAP_MB else cap
    found: list[tuple[int, int]] = []
    begin, held = 0, 0.0
    for place, size in enumerate(sizes):
        held += size
        if held >= limit:
            found.append((begin, place))
            begin, held, limit = place + 1, 0.0, cap
    if begin < len(sizes):
        found.append((begin, len(sizes) - 1))
    return found


def waiting_us(link: Link, ready_us: Sequence[float], sizes: Sequence[float], *, shared: bool) -> float:
    """The wait of the script after its last gradient, in µs, for buckets that became ready at these times.

    With free cores, buckets are exchanged one after another while gradients are still computed. If computing
    and exchanging share a core, each gets half of it until the last gradient is ready; the rest of the
    exchange follows.
    """
    took = [link.all_reduce_us(size) for size in sizes]
    if shared:
        early = sum(took[:-1])
        return took[-1] + early - stolen_us(link, ready_us, sizes)
    end = ready_us[0]
    for ready, one in zip(ready_us, took, strict=True):
        end = max(end, ready) + one
    return end - ready_us[-1]


def stolen_us(link: Link, ready_us: Sequence[float], sizes: Sequence[float]) -> float:
    """The time in µs between the first and the last bucket that went into exchanging, on a shared core."""
    early = sum(link.all_reduce_us(size) for size in sizes[:-1])
    return min(early, (ready_us[-1] - ready_us[0]) / 2)


def fitted(ranks: int, message_us: float, waited_us: float, waits: Callable[[Link], float]) -> Link:
    """The link that reproduces the script's wait; otherwise the fastest or slowest plausible link."""
    slow, fast = _SLOWEST, _FASTEST
    for _ in range(_HALVINGS):
        middle = (slow * fast) ** 0.5
        if waits(Link(ranks, message_us, middle)) > waited_us:
            slow = middle
        else:
            fast = middle
    return Link(ranks, message_us, (slow * fast) ** 0.5)
