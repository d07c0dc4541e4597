"""Implements autocast for the GPU with the CPU's autocast, plus the operators that only the GPU's list has."""

from __future__ import annotations

import torch

from .virtual import VirtualTensor

_IN_FLOAT32 = (
    "acos", "asin", "cosh", "erfinv", "exp", "expm1", "log", "log10", "log2", "log1p", "reciprocal",
    "rsqrt", "sinh", "tan", "pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar", "softplus",
    "layer_norm", "native_layer_norm", "group_norm", "frobenius_norm.dim", "nuclear_norm",
    "cosine_similarity", "kl_div", "dist", "renorm", "logsumexp", "softmax.int", "log_softmax.int",
    "cumsum", "cumprod", "linalg_vector_norm", "linalg_matrix_norm", "sum", "sum.dim_IntList",
    "norm.Scalar", "norm.ScalarOpt_dim", "norm.names_ScalarOpt_dim", "binary_cross_entropy_with_logits",
)  # fmt: skip
"""Operators that run in float32 in CUDA's autocast, but unchanged in the CPU's (PyTorch, autocast_mode.h)."""

_kept = []


class Autocast:
    """Makes ``autocast("cuda")`` work on virtual tensors."""

    def install(self):
        """Register the operators, and use the CPU's autocast wherever a script requests the GPU's."""
        library = torch.library.Library("aten", "IMPL")
        _kept.append(library)  # its registrations last as long as the object
        key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)
        for name in _IN_FLOAT32:
            packet, _, overload = name.partition(".")
            func = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
            if func is None or torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "AutocastCPU"):
                continue
            library.impl(name, _in_float32(func, key), "AutocastCPU")
        autocast = torch.amp.autocast_mode.autocast
        autocast.__init__ = _on_the_cpu(autocast.__init__)
        for name in ("is_autocast_enabled", "get_autocast_dtype"):
            setattr(torch, name, _asked_of_the_cpu(getattr(torch, name)))
        torch.get_autocast_gpu_dtype = lambda: torch.get_autocast_dtype("cpu")


def _in_float32(func, key):
    def called(*args, **kwargs):
        with torch._C._ExcludeDispatchKeyGuard(key):
            return func(*[_widened(value) for value in args], **kwargs)

    return called


def _widened(value):
    if isinstance(value, VirtualTensor) and value.on_gpu and value.dtype in (torch.float16, torch.bfloat16):
        return torch.ops.aten._to_copy(value, dtype=torch.float32)
    return value


def _on_the_cpu(init):
    def __init__(self, device_type, dtype=None, enabled=True, cache_enabled=None):
        if device_type == "cuda":
            device_type = "cpu"
            dtype = dtype or torch.float16
        init(self, device_type, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    __init__.__wrapped__ = init
    return __init__


def _asked_of_the_cpu(ask):
    def asked(device_type="cuda"):
        return ask("cpu" if device_type == "cuda" else device_type)

    return asked
