"""The call of each operator: tensors are created once, then the call has no arguments.

Operators are called through PyTorch's own functions. Operators without a function go through ``torch.ops``,
which takes longer than their call in a backward pass. ``INDIRECT`` lists them.
"""

from functools import partial
from math import prod

import torch

_DRAWN = 1 << 16
aten = torch.ops.aten
INDIRECT = ("conv_bwd", "relu_bwd", "gelu_bwd", "ln_bwd", "bn_bwd", "pool_bwd", "embedding_bwd")
_FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    # Tensors are created in float32. The one operator that takes the format converts them.
    "fp8": torch.float32,
}


def call_of(op, sizes, dtype, device):
    """The call of ``op`` with its own tensors. Raises KeyError for an unknown operator."""
    return _CALLS[op](_Tensors(_FORMATS[dtype], device), sizes)


class _Tensors:
    """Creates the tensors of one call."""

    def __init__(self, dtype, device):
        self.dtype = dtype
        self.device = device

    def __call__(self, *size):
        # Values stay in a range in which no operator overflows or produces subnormal numbers. They repeat: drawing
        # separate values for a large tensor would take longer than timing the operator.
        count = prod(size)
        drawn = torch.rand(min(count, _DRAWN), device=self.device).add_(0.1).to(self.dtype)
        return drawn.repeat(-(-count // _DRAWN))[:count].view(size) if count > _DRAWN else drawn.view(size)

    def whole(self, count, below):
        return torch.randint(below, (count,), device=self.device)


def _on(function, *shapes, arguments=(), transposed=()):
    """Call ``function`` on tensors of these shapes, given as names of sizes, then with ``arguments``.

    The tensors with the numbers ``transposed`` are passed transposed.
    """

    def make(new, s):
        tensors = [new(*(s[name] for name in shape.split())) for shape in shapes]
        given = [one.t() if place in transposed else one for place, one in enumerate(tensors)]
        return partial(function, *given, *arguments)

    return make


_MATRIX = "rows cols"


def _conv(new, s):
    x, w, options = _filters(new, s)
    return lambda: torch.convolution(x, w, None, *options)


def _conv_bwd(new, s):
    x, w, options = _filters(new, s)
    g = torch.ones_like(torch.convolution(x, w, None, *options))
    wanted = [True, True, False]
    return lambda: aten.convolution_backward.default(g, x, w, None, *options, wanted)


def _filters(new, s):
    groups, side, pad, stride = s.get("groups", 1), s["ksize"], s["pad"], s["stride"]
    x = new(s["b"], s["cin"], s["isize"], s["isize"])
    w = new(s["cout"], s["cin"] // groups, side, side)
    return x, w, ([stride] * 2, [pad] * 2, [1, 1], False, [0, 0], groups)


def _bce(new, s):
    x, y = new(s["rows"], s["cols"]) / 2, new(s["rows"], s["cols"]) / 2
    return lambda: torch._C._nn.binary_cross_entropy(x, y, None, 2)


def _softmax_bwd(new, s):
    g = new(s["rows"], s["cols"])
    y = torch.softmax(new(s["rows"], s["cols"]), -1)
    return lambda: torch._softmax_backward_data(g, y, -1, y.dtype)


def _ln(new, s):
    x, w, b, size = new(s["rows"], s["cols"]), new(s["cols"]), new(s["cols"]), [s["cols"]]
    return lambda: torch.native_layer_norm(x, size, w, b, 1e-5)


def _ln_bwd(new, s):
    g, x, w, b = new(s["rows"], s["cols"]), new(s["rows"], s["cols"]), new(s["cols"]), new(s["cols"])
    size, wanted = [s["cols"]], [True, True, True]
    _, mean, rstd = torch.native_layer_norm(x, size, w, b, 1e-5)
    return lambda: aten.native_layer_norm_backward.default(g, x, size, mean, rstd, w, b, wanted)


def _bn(new, s):
    x, (w, b, mean, variance) = _channels(new, s)
    # The call of a layer, which uses cuDNN's kernels if available.
    return lambda: torch.batch_norm(x, w, b, mean, variance, True, 0.1, 1e-5, True)


def _bn_bwd(new, s):
    x, (w, b, mean, variance) = _channels(new, s)
    g = torch.ones_like(x)
    if x.is_cuda:
        leaves = [one.requires_grad_() for one in (x, w, b)]
        with torch.enable_grad():
            y = torch.batch_norm(x, w, b, mean, variance, True, 0.1, 1e-5, True)
        return lambda: torch.autograd.grad(y, leaves, g, retain_graph=True)
    _, own_mean, own_rstd = torch.native_batch_norm(x, w, b, mean, variance, True, 0.1, 1e-5)
    wanted = [True, True, True]
    return lambda: aten.native_batch_norm_backward.default(
        g, x, w, mean, variance, own_mean, own_rstd, True, 1e-5, wanted
    )


def _channels(new, s):
    x = new(s["b"], s["cin"], s["isize"], s["isize"])
    return x, tuple(torch.rand(s["cin"], device=new.device) for _ in range(4))


def _pool(new, s):
    x = new(s["b"], s["cin"], s["isize"], s["isize"])
    return lambda: torch._C._nn.max_pool2d_with_indices(x, [2, 2], [2, 2])


def _pool_bwd(new, s):
    x = new(s["b"], s["cin"], s["isize"], s["isize"])
    y, places = torch._C._nn.max_pool2d_with_indices(x, [2, 2], [2, 2])
    g = torch.ones_like(y)
    both, none, one = [2, 2], [0, 0], [1, 1]
    return lambda: aten.max_pool2d_with_indices_backward.default(g, x, both, both, none, one, False, places)


def _lstm_parts(new, s):
    steps, batch, inside, width = s["m"], s["b"], s["k"], s["n"]
    state = [new(batch, width) for _ in range(2)]
    weights = [new(4 * width, inside), new(4 * width, width), new(4 * width), new(4 * width)]
    return [new(steps, batch, inside), *(one.mul_(0.05) for one in weights), *state]


def _lstm(new, s):
    tensors, width = _lstm_parts(new, s), s["n"]
    return lambda: torch.mkldnn_rnn_layer(*tensors, False, [], 2, width, 1, True, False, False, True)


def _lstm_bwd(new, s):
    tensors, width = _lstm_parts(new, s), s["n"]
    for one in tensors:
        one.requires_grad_()
    with torch.enable_grad():
        out = torch.mkldnn_rnn_layer(*tensors, False, [], 2, width, 1, True, False, False, True)[0]
    g = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, tensors, g, retain_graph=True, allow_unused=True)


def _embedding(new, s):
    table, rows = new(s["k"], s["cols"]), new.whole(s["rows"], s["k"])
    return lambda: torch.embedding(table, rows)


def _embedding_bwd(new, s):
    g, rows, count = new(s["rows"], s["cols"]), new.whole(s["rows"], s["k"]), s["k"]
    return lambda: aten.embedding_dense_backward.default(g, rows, count, -1, False)


def _attention(new, s):
    q, k, v = (new(1, s["b"], s["m"], s["k"]) for _ in range(3))
    return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def _attention_bwd(new, s):
    tensors = [new(1, s["b"], s["m"], s["k"]).requires_grad_() for _ in range(3)]
    with torch.enable_grad():
        out = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)
    g = torch.ones_like(out)
    return lambda: torch.autograd.grad(out, tensors, g, retain_graph=True)


def _attention_by(kernel):
    """Attention by one of PyTorch's implementations: ``MATH``, ``EFFICIENT_ATTENTION``, ``FLASH_ATTENTION``."""

    def make(new, s):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        backend, call = getattr(SDPBackend, kernel), _attention(new, s)

        def chosen():
            with sdpa_kernel(backend):
                return call()

        return chosen

    return make


def _scaled_mm(new, s):
    """A product of 8-bit numbers; the second one must be in column-major order."""
    x, w = (new(*size).to(torch.float8_e4m3fn) for size in ((s["m"], s["k"]), (s["n"], s["k"])))
    one = torch.ones((), device=new.device)
    return lambda: torch._scaled_mm(x, w.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _foreach(new, s):
    tensors = [new(s["cols"]) for _ in range(s["rows"])]
    return lambda: torch._foreach_mul_(tensors, 0.999)


def _adam(**options):
    def make(new, s):
        parameters = [new(s["cols"]).requires_grad_() for _ in range(s["rows"])]
        for one in parameters:
            one.grad = torch.ones_like(one)
        return torch.optim.AdamW(parameters, lr=1e-5, **options).step

    return make


def _transfer(to_device, pinned):
    def make(new, s):
        host = torch.rand(s["rows"], s["cols"]).to(new.dtype)
        host = host.pin_memory() if pinned else host
        there = torch.empty_like(host, device=new.device)
        if to_device:
            return lambda: there.copy_(host, non_blocking=pinned)
        return lambda: host.copy_(there, non_blocking=pinned)

    return make


def through_ops():
    """Two calls of an operator without work: by PyTorch's function, and through ``torch.ops``."""
    x = torch.rand(1)
    return lambda: x.view(1, 1), lambda: aten.view.default(x, [1, 1])


def _host_view(new, s):
    x = new(1)
    return lambda: x.view(1, 1)


def _host_call(new, s):
    x = new(1)
    return lambda: torch.relu(x)


def _host_module(new, s):
    x, module = new(1).requires_grad_(), torch.nn.ReLU()

    def call():
        with torch.enable_grad():
            return module(x)

    return call


_CALLS = {
    "linear": _on(torch.addmm, "n", "m k", "n k", transposed=(2,)),
    "mm": _on(torch.mm, "m k", "k n"),
    "mm_t": _on(torch.mm, "k m", "k n", transposed=(0,)),
    "bmm": _on(torch.bmm, "b m k", "b k n"),
    "conv": _conv,
    "conv_bwd": _conv_bwd,
    **{op: _on(getattr(torch, op), _MATRIX) for op in ("relu", "tanh", "exp", "sqrt", "log", "sigmoid")},
    **{op: _on(getattr(torch, op), _MATRIX, _MATRIX) for op in ("add", "mul", "div")},
    **{f"{op}u": _on(getattr(torch, op), _MATRIX, arguments=(1.25,)) for op in ("add", "mul", "div", "pow")},
    "gelu": _on(torch._C._nn.gelu, _MATRIX),
    # Operators of optimizers, in place; repeated calls keep the values in range.
    "mul_": _on(torch.Tensor.mul_, _MATRIX, arguments=(1.0,)),
    "add_": _on(lambda x, y: x.add_(y, alpha=1e-9), _MATRIX, _MATRIX),
    "lerp_": _on(torch.Tensor.lerp_, _MATRIX, _MATRIX, arguments=(1e-9,)),
    "addcmul_": _on(lambda x, y, z: x.addcmul_(y, z, value=1e-9), _MATRIX, _MATRIX, _MATRIX),
    "addcdiv_": _on(lambda x, y, z: x.addcdiv_(y, z, value=-1e-9), _MATRIX, _MATRIX, _MATRIX),
    "bce": _bce,
    "relu_bwd": _on(aten.threshold_backward.default, _MATRIX, _MATRIX, arguments=(0,)),
    "gelu_bwd": _on(aten.gelu_backward.default, _MATRIX, _MATRIX),
    "softmax": _on(torch._softmax, _MATRIX, arguments=(-1, False)),
    "softmax_bwd": _softmax_bwd,
    "ln": _ln,
    "ln_bwd": _ln_bwd,
    "bn": _bn,
    "bn_bwd": _bn_bwd,
    "pool": _pool,
    "pool_bwd": _pool_bwd,
    "sum": _on(torch.sum, _MATRIX, arguments=([0], True)),
    "mean": _on(torch.mean, _MATRIX, arguments=([1], True)),
    "copy": _on(torch.clone, _MATRIX),
    "transpose": _on(
        lambda x: torch.clone(x, memory_format=torch.contiguous_format), _MATRIX, transposed=(0,)
    ),
    "dropout": _on(torch.nn.functional.dropout, _MATRIX, arguments=(0.1, True)),
    "bernoulli": _on(torch.Tensor.bernoulli_, _MATRIX, arguments=(0.9,)),
    "lstm": _lstm,
    "lstm_bwd": _lstm_bwd,
    "embedding": _embedding,
    "embedding_bwd": _embedding_bwd,
    "attention": _attention,
    "attention_bwd": _attention_bwd,
    "attention_math": _attention_by("MATH"),
    "attention_efficient": _attention_by("EFFICIENT_ATTENTION"),
    "attention_flash": _attention_by("FLASH_ATTENTION"),
    "scaled_mm": _scaled_mm,
    "foreach": _foreach,
    "adam_loop": _adam(foreach=False),
    "adam_foreach": _adam(foreach=True),
    "adam_fused": _adam(fused=True),
    "h2d_pageable": _transfer(True, False),
    "h2d_pinned": _transfer(True, True),
    "d2h_pageable": _transfer(False, False),
    "d2h_pinned": _transfer(False, True),
    "host_view": _host_view,
    "host_call": _host_call,
    "host_module": _host_module,
}
