"""Finds the calls that PyTorch's compiler would fuse into one kernel on a GPU, by the rules of Inductor."""

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
"""Calls that stay unfused: products and convolutions of libraries, and calls without generated code."""
_ROWS = (
    "native_layer_norm",
    "softmax",
    "rms_norm",
    "native_group_norm",
    "linalg_vector_norm",
    "::var",
    "::std",
)
_SUMS = ("::mean", "::sum", "::amax", "::amin", "adaptive_avg_pool")
_WINDOWS = ("max_pool", "::avg_pool", "upsample", "im2col", "col2im")
"""Calls that read each number several times: the compiler stores their inputs first."""
_MOVES = ("::roll", "::flip", "_pad", "::_unsafe_index", "::repeat", "pixel_")
"""Calls that read numbers in another order. A reduction that makes these numbers cannot be fused with them."""
_COPIES = ("aten::clone", "aten::copy_", "aten::_to_copy")
_JOINED_INPUTS = 8
"""Maximum number of inputs of a concatenation that is fused into its readers. With more, its result is stored."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One call as traced at ``TRACED_BATCH``: tensors with their blocks of memory.

    ``moved`` is the number of bytes that do not grow with the batch, and the bytes per sample that do.
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
    """Calls that become one kernel. ``read`` has the tensors from outside the region, with their bytes."""

    def __init__(self, level: int) -> None:
        self.level = level
        self.members: list[int] = []
        self.space = 0
        self.reduces = False
        self.read: dict[int, tuple[Sized, int]] = {}
        self.made: set[int] = set()


class _Regions:
    """The kernels of a program, found call by call.

    The level of a tensor is the number of library calls and stored tensors between it and the program's inputs.
    ``recomputed`` are pairs of a call and a block that it would read. The block is computed again from its own inputs.
    """

    def __init__(self) -> None:
        self.placed: list[_Region | int] = []
        self.recomputed: set[tuple[int, int]] = set()
        self._level: dict[int, int] = {}
        self._maker: dict[int, _Region] = {}
        self._reader: dict[int, _Region] = {}
        self._stored: dict[int, int] = {}

    def keep(self, place: int, call: Seen) -> None:
        """Add a library call."""
        self.placed.append(place)
        level = self._level_of(call) + 1
        for block in call.writes:
            self._maker.pop(block, None)
        self._written(call, level)

    def join(self, place: int, call: Seen) -> None:
        """Add a call with generated code."""
        level = self._level_of(call)
        makers = {block: self._maker[block] for block in call.reads if block in self._maker}
        makers = {block: one for block, one in makers.items() if one.level == level}
        moved = {block for block, one in makers.items() if one.reduces and _moves(call)}
        if moved or (makers and _stores_inputs(call)):
            self.recomputed |= {(place, block) for block in moved}
            region, level = None, level + 1
        elif makers:
            region = _joined(_space(call), list(makers.values()))
        else:
            region = self._beside(call, level)
        if region is None:
            region = _Region(level)
            self.placed.append(region)
        region.members.append(place)
        region.space = max(region.space, _space(call))
        region.reduces = region.reduces or _reduces(call.operator)
        self._reads(region, call)
        stored = _is_long(call)
        self._written(call, level + stored)
        for block in call.writes:
            region.made.add(block)
            if stored:
                self._maker.pop(block, None)
            else:
                self._maker[block] = region

    def _reads(self, region: _Region, call: Seen) -> None:
        """Count the bytes that a call reads. A block that is read in parts counts by its parts, other blocks once."""
        for block, sized, size in zip(call.reads, call.inputs, call.read_bytes, strict=True):
            stored = self._stored.get(block)
            if size == stored:
                self._reader[block] = region
            if block in region.made:
                continue
            # Read twice: the statistics of a group must be complete before its first number is normalized.
            again = "group_norm" in call.operator and block not in self._maker
            before = region.read.get(block)
            if before is None:
                region.read[block] = sized, size * (1 + again)
            elif stored is not None and size < stored:
                region.read[block] = before[0], min(stored, before[1] + size)
            elif before[1] < size:
                region.read[block] = sized, size

    def _level_of(self, call: Seen) -> int:
        return max((self._level.get(block, 0) for block in call.reads), default=0)

    def _written(self, call: Seen, level: int) -> None:
        for block, size in zip(call.writes, call.write_bytes, strict=True):
            self._level[block], self._stored[block] = level, size
            self._reader.pop(block, None)

    def _beside(self, call: Seen, level: int) -> _Region | None:
        """The region that reads the same whole block and has the same number of elements."""
        for block, size in zip(call.reads, call.read_bytes, strict=True):
            region = self._reader.get(block)
            if region is None or region.level != level or size != self._stored[block]:
                continue
            if region.space == _space(call):
                return region
        return None


def fuse(calls: Sequence[Seen]) -> list[Seen]:
    """The calls of the compiled program, in order."""
    calls = _laid_out(calls)
    regions = _Regions()
    last_read: dict[int, int] = {}
    for place, call in enumerate(calls):
        (regions.keep if is_kept(call.operator) else regions.join)(place, call)
        for block in call.reads:
            last_read[block] = place
    written = set(calls[-1].writes) if calls else set[int]()
    return [
        _without_bias(calls[one])
        if isinstance(one, int)
        else _one_kernel(one, calls, last_read, written, regions.recomputed)
        for one in regions.placed
    ]


def _without_bias(call: Seen) -> Seen:
    """The call without the bias of a convolution, which the following kernel adds."""
    if call.operator != "aten::convolution" or len(call.inputs) < 3:
        return call
    return replace(call, inputs=call.inputs[:2])


def is_kept(operator: str) -> bool:
    """True for calls that the compiler leaves to a library."""
    return any(mark in operator for mark in _KEPT)


def _reduces(operator: str) -> bool:
    return any(mark in operator for mark in (*_ROWS, *_SUMS))


def _moves(call: Seen) -> bool:
    """True for calls that read numbers in another order than that in which they are made."""
    return any(mark in call.operator for mark in _MOVES) or (
        call.operator in _COPIES and call.layout == "mixed"
    )


def _is_long(call: Seen) -> bool:
    return call.operator == "aten::cat" and len(call.inputs) > _JOINED_INPUTS


def _stores_inputs(call: Seen) -> bool:
    """True for calls whose inputs must be in memory, because they are read several times or late."""
    return any(mark in call.operator for mark in (*_WINDOWS, "group_norm")) or _is_long(call)


def _joined(space: int, makers: Sequence[_Region]) -> _Region | None:
    """The largest region among the makers of a call's inputs with a fitting number of elements. None if none fits."""
    fitting = [
        one
        for one in makers
        if (one.space == space or not one.reduces)
        and max(one.space, space) <= 8 * max(1, min(one.space, space))
    ]
    return max(fitting, key=lambda one: one.space, default=None)


def _space(call: Seen) -> int:
    return max((prod(size) for size, _ in (*call.inputs, *call.outputs)), default=1)


def _one_kernel(
    region: _Region, calls: Sequence[Seen], last_read: dict[int, int], ends: set[int],
    recomputed: set[tuple[int, int]],
) -> Seen:  # fmt: skip
    members = set(region.members)
    written: dict[int, tuple[Sized, int]] = {}
    for place in region.members:
        call = calls[place]
        for block, sized, size in zip(call.writes, call.outputs, call.write_bytes, strict=True):
            written[block] = sized, size
    outputs = list(written.values())[-1:]
    kept: list[tuple[Sized, int]] = []
    for block, tensor in written.items():
        later = [
            place
            for place in range(region.members[0] + 1, last_read.get(block, -1) + 1)
            if place not in members and block in calls[place].reads
        ]
        if later and all((place, block) in recomputed for place in later):
            outputs = []
        elif later or block in ends:
            kept.append(tensor)
    outputs = kept or outputs
    inputs = list(region.read.values())
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
"""Time of convolutions in channels last over channels first. Inductor decides the layout of a graph by these factors,
which its authors measured (``decide_layout_opt`` in ``torch/_inductor/graph.py``)."""


def _laid_out(calls: Sequence[Seen]) -> list[Seen]:
    """The calls with images in channels last, if the compiler expects that to be faster for the convolutions."""
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
