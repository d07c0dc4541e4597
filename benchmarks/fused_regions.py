"""Which calls PyTorch's compiler would make one kernel on a GPU, by the rules of Inductor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from operator_table import TRACED_BATCH

Sized = tuple[tuple[int, ...], str]
_KEPT = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::convolution", "attention", "aten::topk",
    "aten::sort", "aten::cumsum", "aten::_linalg", "aten::grid_sampler", "aten::_fft", "aten::index_put",
    "aten::scatter", "aten::_cdist", "lstm", "rnn", "gru", "aten::mv", "aten::dot",
)  # fmt: skip
"""Calls that stay as they are: the library's products and convolutions, and what has no generated code."""
_ROWS = (
    "native_layer_norm",
    "softmax",
    "rms_norm",
    "native_group_norm",
    "linalg_vector_norm",
    "::var",
    "::std",
)
_SUMS = ("::mean", "::sum", "::amax", "::amin", "adaptive_avg_pool", "::max", "::min")


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as it was traced at ``TRACED_BATCH``: tensors with the blocks of memory that they lie in.

    ``moved`` is bytes that do not and bytes that do grow with the batch, the latter for each sample.
    """

    operator: str
    inputs: tuple[Sized, ...]
    outputs: tuple[Sized, ...]
    layout: str
    flops: int
    moved: tuple[int, int]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    read_bytes: tuple[int, ...]
    write_bytes: tuple[int, ...]
    transposed: bool = False


class _Region:
    """Calls that become one kernel."""

    def __init__(self, level: int, first: int) -> None:
        self.level = level
        self.members: list[int] = []
        self.first = first
        self.space = 0
        self.reduces = False


def fuse(calls: Sequence[Seen]) -> list[Seen]:
    """The calls of the compiled program, in order."""
    calls = _laid_out(calls)
    level_of: dict[int, int] = {}
    region_of: dict[int, _Region] = {}
    regions: list[_Region] = []
    placed: list[_Region | int] = []
    for place, call in enumerate(calls):
        level = max((level_of.get(block, 0) for block in call.reads), default=0)
        if is_kept(call.operator):
            placed.append(place)
            for block in call.writes:
                level_of[block] = level + 1
                region_of.pop(block, None)
            continue
        region = _joined(call, level, region_of)
        if region is None:
            region = _Region(level, place)
            regions.append(region)
            placed.append(region)
        region.members.append(place)
        region.space = max(region.space, _space(call))
        region.reduces = region.reduces or any(mark in call.operator for mark in (*_ROWS, *_SUMS))
        for block in call.writes:
            level_of[block] = level
            region_of[block] = region
    last_read: dict[int, int] = {}
    for place, call in enumerate(calls):
        for block in call.reads:
            last_read[block] = place
    written = set(calls[-1].writes) if calls else set[int]()
    return [
        _without_bias(calls[one]) if isinstance(one, int) else _one_kernel(one, calls, last_read, written)
        for one in placed
    ]


def _without_bias(call: Seen) -> Seen:
    """The bias of a convolution is added in the kernel that follows."""
    if call.operator != "aten::convolution" or len(call.inputs) < 3:
        return call
    return replace(call, inputs=call.inputs[:2])


def is_kept(operator: str) -> bool:
    """Whether the compiler leaves a call to a library."""
    return any(mark in operator for mark in _KEPT)


def _joined(call: Seen, level: int, region_of: dict[int, _Region]) -> _Region | None:
    """The region of a producer that goes over the same numbers and that no library call parts from this one."""
    found: _Region | None = None
    space = _space(call)
    for block in call.reads:
        region = region_of.get(block)
        if region is None or region.level != level:
            continue
        if region.reduces and region.space != space:
            continue
        if max(region.space, space) > 8 * max(1, min(region.space, space)):
            continue
        if found is None or region.space > found.space:
            found = region
    return found


def _space(call: Seen) -> int:
    return max((prod(size) for size, _ in (*call.inputs, *call.outputs)), default=1)


def _one_kernel(region: _Region, calls: Sequence[Seen], last_read: dict[int, int], ends: set[int]) -> Seen:
    members = set(region.members)
    written: dict[int, tuple[Sized, int]] = {}
    read: dict[int, tuple[Sized, int]] = {}
    for place in region.members:
        call = calls[place]
        for block, sized, size in zip(call.reads, call.inputs, call.read_bytes, strict=True):
            if block not in written and (block not in read or read[block][1] < size):
                read[block] = sized, size
        for block, sized, size in zip(call.writes, call.outputs, call.write_bytes, strict=True):
            written[block] = sized, size
    readers: set[int] = set()
    for block in written:
        outside = any(
            place > region.members[0] and place not in members and block in calls[place].reads
            for place in range(region.members[0], last_read.get(block, -1) + 1)
        )
        if outside or block in ends:
            readers.add(block)
    outputs = [written[block] for block in written if block in readers] or list(written.values())[-1:]
    inputs = list(read.values())
    sizes = [size for _, size in (*inputs, *outputs)]
    fixed = sum(size for size in sizes if size % TRACED_BATCH)
    each = sum(size // TRACED_BATCH for size in sizes if size % TRACED_BATCH == 0)
    layouts = {calls[place].layout for place in region.members}
    names = [calls[place].operator for place in region.members]
    kind = "reduction" if region.reduces else "pointwise"
    if all(name == "aten::_to_copy" for name in names):
        kind = "cast"
    return Seen(
        f"inductor::{kind}",
        tuple(sized for sized, _ in inputs),
        tuple(sized for sized, _ in outputs),
        "mixed" if "mixed" in layouts else "channels last" if layouts == {"channels last"} else "",
        0,
        (fixed, each),
        (),
        (),
        (),
        (),
    )


_IN_CHANNELS_LAST = {"default": 0.823, "grouped": 1.358, "in and out": 0.725, "small": 0.783}
"""Time of convolutions channels last over channels first by which Inductor decides about a graph's layout, as measured
by its authors (``decide_layout_opt`` in ``torch/_inductor/graph.py``)."""


def _laid_out(calls: Sequence[Seen]) -> list[Seen]:
    """Images channels last where the compiler takes that to be quicker for the convolutions of the program."""
    convolutions = [call for call in calls if call.operator == "aten::convolution"]
    if not convolutions:
        return list(calls)
    weighted = sum(_IN_CHANNELS_LAST[_kind(call)] * call.flops for call in convolutions)
    if weighted > sum(call.flops for call in convolutions) or len(calls) >= 300 * len(convolutions):
        return list(calls)
    return [replace(call, layout="channels last") if _on_images(call) else call for call in calls]


def _on_images(call: Seen) -> bool:
    return any(len(size) == 4 for size, _ in (*call.inputs, *call.outputs)) and call.layout != "mixed"


def _kind(call: Seen) -> str:
    (image, _), (weight, _) = call.inputs[:2]
    if weight[1] != image[1] and image[1] > 1 and not call.transposed:
        return "grouped"
    if weight[0] * 2 <= weight[1] and len(weight) > 2 and weight[2] > 1:
        return "in and out"
    return "small" if weight[0] <= 64 and weight[1] <= 64 else "default"
