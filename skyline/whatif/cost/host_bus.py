"""The bus between a GPU and its host: the rate of each direction, and the lanes of its copies."""

from __future__ import annotations

from skyline.whatif.constant import Constant
from skyline.whatif.number_formats import gpu
from skyline.whatif.subject import Subject

OUT, IN = "copies to the host", "copies from the host"
SUSTAINED = Constant(
    0.8,
    0.6,
    0.9,
    "an assumption: the share of its peak that the bus reaches with large copies of pinned memory",
)
_USUAL_GB_S = Constant.at(32.0, "PCIe 3.0 with 16 lanes, both directions, for a GPU that is not known")


def bytes_per_us(subject: Subject, end: str = "value") -> float:
    """The rate of one direction, in bytes per µs; ``end`` is the end of the range of the sustained rate."""
    spec = gpu(subject)
    both_gb_s = spec.pcie_gb_s if spec is not None and spec.pcie_gb_s else _USUAL_GB_S.value
    return both_gb_s / 2 * 1e3 * getattr(SUSTAINED, end)


def lane_beside(stream: str, direction: str) -> str:
    """The lane of a direction's copies, named after the device of a stream."""
    device, colon, _ = stream.rpartition(":")
    return f"{device}{colon}{direction}"
