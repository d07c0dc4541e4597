"""The measured operators, and the sizes that occur in training."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from skyline.calibrate.case_order import Design, Span
from skyline.lazy_dataclass import dataclass

_Spans = tuple[Span, ...]
_Sizes = Callable[[tuple[int, ...]], "dict[str, int] | None"]

_MOST_ELEMENTS = 1 << 23
_MOST_FLOP = {"cpu": 3e9, "cuda": 2e12}
_POINTWISE = (
    "add", "relu", "mul", "gelu", "relu_bwd", "addu", "tanh", "exp", "gelu_bwd", "div", "sqrt", "log", "sigmoid", "bce",
)  # fmt: skip
_UPDATES = ("divu", "mul_", "add_", "lerp_", "addcmul_", "addcdiv_")
"""Operators that optimizers call once per parameter."""
_ROWWISE = ("softmax", "ln", "softmax_bwd", "ln_bwd")
_CONVOLUTION = ("b", "cin", "cout", "ksize", "isize", "stride", "pad", "groups")
_CONVOLVED_ON_UNITS = ("tf32", "bf16", "fp16")
"""cuDNN convolves float32 in TF32 unless a script forbids it (``torch.backends.cudnn.allow_tf32``)."""
_SIDES = (1, 3, 3, 5, 7)
_ONE_GROUP_IN = 8
"""Every eighth convolution is depthwise."""
_GROUPED_FLOP = 0.02
"""Depthwise convolutions are slower: their arithmetic is limited to this share of the others' limit."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """The ranges of sizes for a kind of device.

    On a GPU, small tensors only take the start time of a kernel. They say nothing about the tensors of a
    training, so few are measured.
    """

    flat: _Spans
    picture: _Spans
    filters: _Spans
    sides: Span
    heads: _Spans
    rows: Span
    columns: Span
    batches: _Spans


_SPANS = {
    "cpu": _Sampled(
        flat=((1, 8192), (16, 4096)),
        picture=((1, 256), (8, 512), (4, 128)),
        filters=((1, 256), (1, 512), (8, 512)),
        sides=(4, 224),
        heads=((1, 256), (8, 1024), (16, 128)),
        rows=(1, 8192),
        columns=(8, 8192),
        batches=((2, 512), (8, 1024), (8, 1024), (8, 512)),
    ),
    "cuda": _Sampled(
        flat=((256, 131072), (64, 4096)),
        picture=((8, 256), (16, 1024), (7, 128)),
        filters=((8, 256), (3, 1024), (16, 1024)),
        sides=(7, 224),
        heads=((16, 4096), (32, 4096), (32, 128)),
        rows=(64, 32768),
        columns=(64, 16384),
        batches=((8, 1024), (16, 1024), (16, 1024), (16, 512)),
    ),
}


def designs(device: str, *, eight_bits: bool = False, tf32: bool = False) -> tuple[Design, ...]:
    """The designs for ``cpu`` or ``cuda``; the limits of the sizes are higher on a GPU.

    ``eight_bits`` is true if the device supports 8-bit products, ``tf32`` if it has units for TF32.
    """
    flop = _MOST_FLOP[device]
    wide = 16 if device == "cuda" else 1
    elements = _MOST_ELEMENTS * wide

    def product(drawn: tuple[int, ...]) -> dict[str, int] | None:
        m, n, k = drawn
        return {"m": m, "n": n, "k": k} if 2.0 * m * n * k <= flop else None

    def eights(drawn: tuple[int, ...]) -> dict[str, int] | None:
        found = product(drawn)
        return found and {name: max(16, size // 16 * 16) for name, size in found.items()}

    def products(drawn: tuple[int, ...]) -> dict[str, int] | None:
        b, m, n, k = drawn
        fits = 2.0 * b * m * n * k <= flop and b * max(m * n, m * k, n * k) <= elements
        return {"b": b, "m": m, "n": n, "k": k} if fits else None

    def convolution(drawn: tuple[int, ...]) -> dict[str, int] | None:
        b, cin, cout, side, size, stride, kind = drawn
        ksize = _SIDES[side - 1]
        single = kind % _ONE_GROUP_IN == 0
        cin, cout = (cout, cout) if single else (cin, cout)
        groups = cout if single else 1
        if size < ksize or b * max(cin, cout) * size**2 > elements:
            return None
        across = (size + 2 * (ksize // 2) - ksize) // stride + 1
        if 2.0 * b * cout * across**2 * cin // groups * ksize**2 > flop * (_GROUPED_FLOP if single else 1.0):
            return None
        values = (b, cin, cout, ksize, size, stride, ksize // 2, groups)
        return dict(zip(_CONVOLUTION, values, strict=True))

    def matrix(drawn: tuple[int, ...]) -> dict[str, int] | None:
        rows, cols = drawn
        return {"rows": rows, "cols": cols} if rows * cols <= elements else None

    def images(drawn: tuple[int, ...]) -> dict[str, int] | None:
        b, channels, size = drawn
        fits = b * channels * size**2 <= elements
        return {"b": b, "cin": channels, "isize": size} if fits else None

    def table(drawn: tuple[int, ...]) -> dict[str, int] | None:
        rows, cols, k = drawn
        return {"rows": rows, "cols": cols, "k": k} if max(rows, k) * cols <= elements else None

    def attention(drawn: tuple[int, ...]) -> dict[str, int] | None:
        b, m, k = drawn
        return {"b": b, "m": m, "k": k} if 4.0 * b * m * m * k <= flop and b * m * m <= elements else None

    def recurrent(drawn: tuple[int, ...]) -> dict[str, int] | None:
        b, m, n, k = drawn
        return {"b": b, "m": m, "n": n, "k": k} if 8.0 * b * m * n * (n + k) <= flop / 2 else None

    span = _SPANS[device]
    flat, picture, heads = span.flat, span.picture, span.heads
    convolved = _CONVOLVED_ON_UNITS if tf32 else ()
    filters = (*span.filters, (1, len(_SIDES)), span.sides, (1, 2), (1, 64))
    return (
        *(Design(op, (), lambda _: {"rows": 1, "cols": 1}) for op in HOST),
        *(Design(op, ((1, 3),), lambda drawn: {"k": drawn[0]}, 3) for op in TRAINING),
        Design("linear", (span.rows, span.columns, span.columns), product, 3),
        Design("mm", (span.columns, span.columns, span.rows), product, 2),
        Design("mm_t", (span.columns, span.columns, span.rows), product, 2),
        Design("bmm", span.batches, products, 2),
        Design("conv", filters, convolution, 6, convolved),
        Design("conv_bwd", filters, convolution, 6, convolved),
        *(Design(op, flat, matrix) for op in _POINTWISE),
        *(Design(op, flat, matrix) for op in _ROWWISE),
        *(Design(op, picture, images) for op in ("bn", "bn_bwd", "pool", "pool_bwd")),
        *(Design(op, flat, matrix) for op in ("sum", "mean", "copy", "transpose", "dropout", "bernoulli")),
        *(Design(op, ((16, 32768), (8, 1024), (16, 65536)), table) for op in ("embedding", "embedding_bwd")),
        *(Design(op, heads, attention) for op in ("attention", "attention_bwd")),
        *(Design(op, ((1, 256), (16, 1 << 22)), matrix) for op in _OPTIMIZERS),
        *(Design(op, ((1, 128), (1, 128), (8, 1024), (8, 1024)), recurrent) for op in _RECURRENT),
        *(Design(op, ((1, 256), (16, 1 << 18)), matrix) for op in _UPDATES),
        *(_on_gpu(flat, matrix, heads, attention) if device == "cuda" else ()),
        *((Design("scaled_mm", ((16, 4096),) * 3, eights, 2, ("fp8",)),) if eight_bits else ()),
    )


def _on_gpu(flat: _Spans, matrix: _Sizes, heads: _Spans, attention: _Sizes) -> Iterator[Design]:
    """Cases for GPUs only: copies to and from the GPU, launches and waits, implementations of attention."""
    yield from (Design(op, flat, matrix) for op in _TRANSFERS)
    yield from (Design(op, (), lambda _: {"rows": 1, "cols": 1}, formats=("fp32",)) for op in DEVICE_CALLS)
    yield from (Design(op, heads, attention) for op in _ATTENTION)


HOST = ("host_view", "host_call", "host_module")
"""Cost on the host's own thread: an operator without work, one with work, one of a module in training."""
TRAINING = ("host_forward", "host_backward", "host_optimizer")
"""Host cost of a training step beyond its operators, per operator, in three small models."""
_RECURRENT = ("lstm", "lstm_bwd")
_OPTIMIZERS = ("foreach", "adam_loop", "adam_foreach", "adam_fused")
_ATTENTION = ("attention_math", "attention_efficient", "attention_flash")
DEVICE_CALLS = ("launch_call", "launch_latency", "kernel_gap", "queue_depth", "event_sync", "stream_sync")
"""Calls that launch or wait, by the host's clock. ``queue_depth`` is a number of launches, not a time."""
_TRANSFERS = ("h2d_pageable", "h2d_pinned", "d2h_pageable", "d2h_pinned")
