"""The time of each kind of kernel on a board in µs, computed from the sizes of the calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from skyline_predictors.memory_levels import Floats, together
from skyline_predictors.mixed.board import Board
from skyline_predictors.mixed.call_kind import CallKind
from skyline_predictors.tiles import sides, waves

Columns = Mapping[str, Floats]
Constants = Mapping[str, float]
TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64), (128, 32), (256, 64), (256, 16))
_SPLITS = (1, 4, 16, 64, 256)
_LARGEST_TAPS = 49
"""Number of taps above which cuDNN has no depthwise kernels of its own for channels last."""
_WIDE_GROUP = 64
"""Channels per group from which on no kernel works on several groups at once."""
_MANY_GROUPS = 32
"""Number of groups from which on these kernels are used."""
_NORM = 3.0
"""The power with which the times of parallel work combine."""


def call_us(kind: CallKind, calls: Columns, on: Board, constants: Constants) -> Floats:
    """The time of calls of one kind."""
    return _FORMULAS[kind](calls, on, constants)


def _stream_us(moved: Floats, share: Floats | float, on: Board, constants: Constants) -> Floats:
    """Time of bytes at a share of the memory's rate. Small amounts stay in the second-level cache."""
    ratio = moved / (constants["l2_usable"] * on.l2_bytes)
    missing = 1 - 1 / (1 + ratio ** constants["l2_sharpness"])
    return moved * (missing / (on.bytes_per_us * share) + (1 - missing) / on.l2_bytes_per_us)


def _product_us(
    batch: Floats, rows: Floats, columns: Floats, inner: Floats, moved: Floats, on: Board, constants: Constants,
    *, share: Floats | float = 1.0, splits: tuple[int, ...] = _SPLITS, element: Floats | float = 2.0,
) -> Floats:  # fmt: skip
    """Time of a product with the best of the tiles, which are computed in waves.

    A tile is limited by its arithmetic or by the transfer of its operands from the second-level cache.
    """
    down, across = sides(TILES)
    area = down * across
    tiles = batch * np.ceil(rows / down) * np.ceil(columns / across)
    resident = np.clip(32768 / area, 1.0, 4.0)
    step = 2 * area * on.multiprocessors / (on.matrix_flop_per_us * constants["product_share"] * share)
    step = step * (1 + constants["small_tile"] * (16384 / area - 0.5).clip(0.0))
    fetch = (down + across) * element * on.multiprocessors / on.tile_bytes_per_us
    per_step = together(_NORM, step, np.broadcast_to(fetch, step.shape))
    best = np.full(batch.shape, np.inf)
    for split in splits:
        turns = waves(split * tiles, np.array(on.multiprocessors), resident, constants["tail"])
        depth = np.ceil(inner / split / 32) * 32 + constants["tile_overhead"]
        taken = (turns * depth * per_step).min(axis=0)
        if split > 1:
            taken = taken + split * 8 * batch * rows * columns / on.bytes_per_us + constants["kernel_us"]
        best = np.minimum(best, taken)
    memory = _stream_us(moved, constants["product_memory"], on, constants)
    return together(_NORM, best, memory) + constants["kernel_us"]


def _product(calls: Columns, on: Board, constants: Constants) -> Floats:
    share = np.where(calls["aligned"] > 0, 1.0, constants["unaligned"])
    return _product_us(
        calls["batch"], calls["rows"], calls["columns"], calls["inner"], calls["moved"], on, constants,
        share=share, element=calls["element"],
    )  # fmt: skip


def _turned_us(moved: Floats, on: Board, constants: Constants) -> Floats:
    """Time to convert images between the two layouts: they are read and written."""
    return _stream_us(2 * moved, constants["turn"], on, constants) + constants["kernel_us"]


def _convolution(calls: Columns, on: Board, constants: Constants) -> Floats:
    """Time as a product of patches with weights, in channels last. Other images are converted before and after."""
    pixels, channels, filters, taps = calls["pixels"], calls["channels"], calls["filters"], calls["taps"]
    one = np.ones_like(pixels)
    first, backward = calls["last"] == 0, calls["backward"] > 0
    image, output, weight = calls["image_bytes"], calls["output_bytes"], calls["weight_bytes"]
    moved = image + output + weight
    element = calls["element"]
    step = 16 / element
    # Channels are padded to the step of the matrix units. Images of few channels have kernels of their own.
    filled = np.where(
        channels < step,
        np.maximum(channels, constants["few_channels"] * step),
        np.ceil(channels / step) * step,
    )
    filters_filled = np.ceil(filters / step) * step
    unaligned = ((channels % step != 0) & (channels >= step)) | (filters % step != 0)
    share = np.where(taps > 1, constants["patch_share"], constants["point_share"])
    share = share * np.where(unaligned, constants["unaligned_convolution"], 1.0)
    forward = _product_us(
        one,
        pixels,
        filters_filled,
        filled * taps,
        moved,
        on,
        constants,
        share=share,
        splits=(1, 4),
        element=element,
    )
    to_images = _product_us(
        one, pixels * calls["stride"] ** 2, filled, filters_filled * taps / calls["stride"] ** 2, moved, on, constants,
        share=share * constants["to_images_share"], splits=(1, 4), element=element,
    )  # fmt: skip
    to_weights = _product_us(
        one, filters_filled, filled * taps, pixels, moved, on, constants,
        share=share * constants["to_weights_share"], splits=(1, 16, 64), element=element,
    )  # fmt: skip
    wants = calls["to_images"] > 0
    turn_forward = _turned_us(image, on, constants) + _turned_us(output, on, constants)
    turn_backward = (
        _turned_us(image, on, constants)
        + _turned_us(output, on, constants)
        + np.where(wants, _turned_us(image, on, constants), 0.0)
    )
    bias = _bias_us(calls, on, constants, constants["kernel_us"])
    back = to_weights + np.where(wants, to_images, 0.0)
    turns = np.where(taps > 1, constants["turned_patches"], constants["turned_points"])
    turn_backward = turn_backward * constants["turned_backward"]
    turned = np.where(first & on.on_units, turns * np.where(backward, turn_backward, turn_forward), 0.0)
    return np.where(backward, back, forward) + turned + bias


def _depthwise(calls: Columns, on: Board, constants: Constants) -> Floats:
    """Time of a few instructions for each tap of each output pixel. Images are read and written once.

    With channels first, most kernels are PyTorch's own. Their gradients of weights use one block for each
    weight, so few weights leave multiprocessors idle. cuDNN's kernels for channels last pad narrow images.
    """
    backward, cudnn = calls["backward"] > 0, _by_cudnn(calls)
    image, output, groups, taps = calls["image_bytes"], calls["output_bytes"], calls["groups"], calls["taps"]
    generic = (calls["last"] > 0) & ((taps > _LARGEST_TAPS) | (groups % (16 / calls["element"]) != 0))
    work = output / calls["element"] * taps / on.plain_flop_per_us
    per_tap = np.where(cudnn, constants["depthwise_tap_last"], constants["depthwise_tap_first"])
    per_tap = np.where(generic, per_tap * constants["depthwise_generic"], per_tap)
    share = np.where(cudnn, constants["depthwise_stream_last"], constants["depthwise_stream_first"])
    memory = _stream_us(image + output, share, on, constants)
    forward = together(_NORM, work * per_tap, memory)
    to_images = together(_NORM, work * per_tap * constants["depthwise_to_images"], memory)
    busy = on.multiprocessors * constants["depthwise_blocks"]
    narrow = np.where(
        cudnn, np.maximum(1.0, constants["depthwise_fill"] / groups), np.maximum(1.0, busy / (groups * taps))
    )
    weights_tap = np.where(cudnn, constants["depthwise_weights_last"], constants["depthwise_weights_first"])
    weights_tap = np.where(generic, weights_tap * constants["depthwise_generic"], weights_tap)
    to_weights = together(_NORM, work * weights_tap * narrow, memory)
    bias = _bias_us(calls, on, constants)
    back = to_weights + np.where(calls["to_images"] > 0, to_images, 0.0)
    return np.where(backward, back, forward) + bias + constants["kernel_us"] * np.where(backward, 2.0, 1.0)


def _bias_us(calls: Columns, on: Board, constants: Constants, further_us: float = 0.0) -> Floats:
    """Time to add the bias, or of its gradient: a pass over the output, plus ``further_us`` for a separate kernel."""
    output = np.where(calls["backward"] > 0, 1.0, 2.0) * calls["output_bytes"]
    return np.where(
        calls["bias"] > 0, _stream_us(output, constants["stream"], on, constants) + further_us, 0.0
    )


def _by_cudnn(calls: Columns) -> NDArray[np.bool_]:
    """Mask of depthwise convolutions that PyTorch gives to cuDNN: all in channels last, else wide ones in 16 bits."""
    small = (calls["taps"] == 9) | (calls["taps"] == 25)
    many = (calls["groups"] >= 512) | ((calls["groups"] >= 256) & (calls["width"] >= 28))
    return (calls["last"] > 0) | (small & many & (calls["element"] == 2))


def _grouped(calls: Columns, on: Board, constants: Constants) -> Floats:
    """Time of narrow products, one for each group, whose tiles are mostly empty, and of the images' traffic."""
    backward, first = calls["backward"] > 0, calls["last"] == 0
    image, output, weight = calls["image_bytes"], calls["output_bytes"], calls["weight_bytes"]
    least = constants["grouped_width"]
    width = np.maximum(calls["channels"], least) * np.maximum(calls["filters"], least)
    flops = 2 * calls["pixels"] * calls["groups"] * width * calls["taps"]
    work = flops / (on.matrix_flop_per_us * constants["grouped_share"])
    memory = _stream_us(image + output + weight, constants["grouped_stream"], on, constants)
    one = together(_NORM, work, memory)
    # Backward kernels are slower for channels first. For channels last they are slower if groups are wide or
    # few, or if the numbers of channels and filters differ: cuDNN's own kernels for groups stop at half of
    # that width.
    wide = (calls["channels"] >= _WIDE_GROUP) | (calls["channels"] != calls["filters"])
    wide = wide | (calls["groups"] < _MANY_GROUPS)
    slower = np.where(
        first,
        constants["grouped_first"],
        np.where(wide, constants["grouped_wide"] * np.minimum(1.0, _WIDE_GROUP / calls["channels"]), 1.0),
    )
    to_images = np.where(calls["to_images"] > 0, one * constants["grouped_to_images"], 0.0)
    back = slower * (one * constants["grouped_to_weights"] + to_images)
    turn = _turned_us(image, on, constants) * (1 + backward) + _turned_us(output, on, constants)
    bias = _bias_us(calls, on, constants)
    turned = np.where(first & on.on_units, constants["grouped_turned"] * turn, 0.0)
    return (
        np.where(backward, back, one) + turned + bias + constants["kernel_us"] * np.where(backward, 2.0, 1.0)
    )


def _attention(calls: Columns, on: Board, constants: Constants) -> Floats:
    """Time of two products for each pair of tiles with softmax in between (flash), five products backward."""
    queries = np.ceil(calls["queries"] / 64) * 64
    keys = np.ceil(calls["keys"] / 64) * 64
    depth = np.ceil(calls["depth"] / 32) * 32
    backward = calls["backward"] > 0
    pairs = calls["heads"] * queries * keys
    products = (
        pairs * depth * np.where(backward, 10.0, 4.0) / (on.matrix_flop_per_us * constants["attention_share"])
    )
    softmax = pairs * np.where(backward, 1.5, 1.0) * constants["attention_softmax"] / on.plain_flop_per_us
    slower = np.where(calls["fused"] > 0, 1.0, constants["attention_masked"])
    memory = _stream_us(calls["moved"], constants["stream"], on, constants)
    return together(_NORM, (products + softmax) * slower, memory) + constants["kernel_us"] * (
        1 + 2 * backward
    )


def _passes(kind: str) -> Callable[[Columns, Board, Constants], Floats]:
    """Formula for kinds that stream. ``kind`` names their share of the memory's rate."""

    def formula(calls: Columns, on: Board, constants: Constants) -> Floats:
        mixed = calls["mixed"] > 0
        share = np.where(mixed, constants["turn_" + kind], constants["stream_" + kind])
        work = calls["elements"] * np.where(calls["costly"] > 0, constants["costly"], constants["cheap"])
        memory = _stream_us(calls["moved"], share, on, constants)
        return together(_NORM, memory, work / on.plain_flop_per_us) + constants["kernel_us"]

    return formula


def _batch_norm(calls: Columns, on: Board, constants: Constants) -> Floats:
    """Time of training, which reads images twice forward, and images and gradients twice backward.

    With channels first, each channel has one block, which is limited to the rate of one multiprocessor.
    """
    training, backward, last = calls["training"] > 0, calls["backward"] > 0, calls["last"] > 0
    image = calls["elements"] * calls["element"]
    moved = np.where(backward, 5.0, np.where(training, 3.0, 0.0)) * image
    moved = np.where(moved > 0, moved, calls["moved"])
    share = np.where(
        training | backward,
        np.where(last, constants["batch_norm_last"], constants["batch_norm_first"]),
        constants["stream_pointwise"],
    )
    kernels = np.where(backward | training, 2.0, 1.0)
    taken = _stream_us(moved, share, on, constants) + kernels * constants["kernel_us"]
    blocks = np.minimum(calls["channels"], on.multiprocessors)
    drawn = moved / (blocks * on.tile_bytes_per_us / on.multiprocessors * constants["batch_norm_block"])
    return np.where((training | backward) & ~last, np.maximum(taken, drawn), taken)


def _row_norm(calls: Columns, on: Board, constants: Constants) -> Floats:
    backward = calls["backward"] > 0
    share = np.where(backward, constants["row_norm_backward"], constants["row_norm"])
    share = np.where(calls["mixed"] > 0, share * constants["row_norm_mixed"], share)
    return _stream_us(calls["moved"], share, on, constants) + constants["kernel_us"] * np.where(
        backward, 2.0, 1.0
    )


def _softmax(calls: Columns, on: Board, constants: Constants) -> Floats:
    return _stream_us(calls["moved"], constants["softmax"], on, constants) + constants["kernel_us"]


def _pool(calls: Columns, on: Board, constants: Constants) -> Floats:
    backward = calls["backward"] > 0
    share = np.where(backward, constants["pool_backward"], constants["pool"])
    return _stream_us(calls["moved"], share, on, constants) + constants["kernel_us"]


def _optimizer(calls: Columns, on: Board, constants: Constants) -> Floats:
    return _stream_us(calls["moved"], constants["optimizer"], on, constants) + constants["kernel_us"]


def _host_copy(calls: Columns, on: Board, constants: Constants) -> Floats:
    return calls["moved"] / (constants["bus_gb_s"] * 1e3)


def _recurrent(calls: Columns, on: Board, constants: Constants) -> Floats:
    return calls["moved"] / (on.bytes_per_us * constants["stream"]) + constants["kernel_us"]


_FORMULAS: dict[CallKind, Callable[[Columns, Board, Constants], Floats]] = {
    CallKind.PRODUCT: _product,
    CallKind.CONVOLUTION: _convolution,
    CallKind.GROUPED: _grouped,
    CallKind.DEPTHWISE: _depthwise,
    CallKind.ATTENTION: _attention,
    CallKind.BATCH_NORM: _batch_norm,
    CallKind.ROW_NORM: _row_norm,
    CallKind.SOFTMAX: _softmax,
    CallKind.POOL: _pool,
    CallKind.REDUCTION: _passes("reduction"),
    CallKind.POINTWISE: _passes("pointwise"),
    CallKind.COPY: _passes("copy"),
    CallKind.GATHER: _passes("gather"),
    CallKind.FUSED: _passes("fused"),
    CallKind.OPTIMIZER: _optimizer,
    CallKind.HOST_COPY: _host_copy,
    CallKind.RECURRENT: _recurrent,
}
