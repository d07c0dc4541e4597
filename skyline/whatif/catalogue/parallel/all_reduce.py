"""The cost of adding up gradients over the ranks of a job, and the buckets that they are gathered into."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from skyline.lazy_dataclass import dataclass

MIB = 1 << 20
DEFAULT_CAP_MB = 25.0
"""Default of ``bucket_cap_mb`` of ``DistributedDataParallel``."""
_FIRST_BUCKET = MIB
_LATENCY_US = {"gloo": 60.0, "nccl": 8.0}
"""One message of a ring, with nothing in it."""
_SLOWEST, _FASTEST = 10.0, 1e5
"""Bytes per µs that a link may carry: 10 MB/s, as of an Ethernet of 100 Mbit/s, to 100 GB/s."""
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
        """Time of one all-reduce."""
        return self.fixed_us + 2 * (self.ranks - 1) / self.ranks * size_bytes / self.bytes_per_us

    @property
    def fixed_us(self) -> float:
        """The part of it that does not shrink with the data."""
        return 2 * (self.ranks - 1) * self.latency_us


def latency_us(backend: str) -> float:
    """Of one message; what is not known takes as long as with gloo."""
    return _LATENCY_US.get(backend, _LATENCY_US["gloo"])


def buckets_of(sizes: Sequence[float], cap_mb: float) -> list[tuple[int, int]]:
    """Which gradients travel together: first and last of each bucket, in the order in which they arrive.

    A bucket is closed by the gradient that makes it as large as its limit. With the default cap the first bucket's
    limit is 1 MiB, so that the exchange begins early; with a cap that is given it is the cap
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
    """The wait of the script behind its last gradient for buckets that became ready at these times.

    With cores to spare, buckets are exchanged one after another while gradients are still being made. Where
    computing and exchanging share a core, each gets half of it until the last gradient is there; the rest of the
    exchange comes after.
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
    """The part of the time between the first and the last bucket that went into exchanging, on a shared core."""
    early = sum(link.all_reduce_us(size) for size in sizes[:-1])
    return min(early, (ready_us[-1] - ready_us[0]) / 2)


def fitted(ranks: int, message_us: float, waited_us: float, waits: Callable[[Link], float]) -> Link:
    """The link with which the script waits as long as it did; the fastest or slowest believable one else."""
    slow, fast = _SLOWEST, _FASTEST
    for _ in range(_HALVINGS):
        middle = (slow * fast) ** 0.5
        if waits(Link(ranks, message_us, middle)) > waited_us:
            slow = middle
        else:
            fast = middle
    return Link(ranks, message_us, (slow * fast) ** 0.5)
