"""A compiler's treatment of an operator: fused with its neighbours, left to a library, or dropped."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache

from skyline.graph.task import WorkClass, work_class


class CostClass(IntEnum):
    """The class of an operator, a node of the backward pass, or a kernel."""

    POINTWISE = 0
    """Works element by element, or reduces: code is generated for it, fused with its neighbours."""
    HEAVY = 1
    """A product, convolution or attention: a library computes it as before."""
    KEPT = 2
    """Stays as it is, and nothing is fused across it: sorting, scattering, random choices, unknown operators."""
    VIEW = 3
    """Another view of the same memory: it disappears in compiled code."""
    OUTSIDE = 4
    """Not part of a graph although it runs between parts of one: autograd itself accumulates gradients."""
    READ = 5
    """Passes a number from a tensor to Python: the graph ends there, and another begins."""
    FOREIGN = 6
    """Another library's operator or a collective: it stays as it is, and the graph ends there."""


_READS = {"item", "_local_scalar_dense", "is_nonzero", "equal", "nonzero", "unique", "_unique2", "tolist"}
_VIEWS = {
    "view", "permute", "transpose", "t", "unbind", "expand", "expand_as", "select", "slice", "alias", "squeeze",
    "unsqueeze", "detach", "narrow", "split", "split_with_sizes", "chunk", "as_strided", "unflatten", "flatten",
    "view_as", "numpy_T", "movedim", "swapaxes", "result_type", "lift_fresh", "unsafe_split", "_unsafe_view",
    "unsafeview", "asstrided", "splitwithsizes", "viewas", "_reshape_alias", "unsafesplit",
}  # fmt: skip
_COPIED_BACK = {
    "slice", "select", "unbind", "narrow", "split", "splitwithsizes", "asstrided", "expand", "unsafesplit", "chunk",
}  # fmt: skip
"""Views whose gradient is not a view: parts are copied into a whole, or added up."""
_KEPT = {
    "adaptiveavgpool3d", "adaptivemaxpool3d", "angle", "argsort", "bincount",
    "cdist", "cdistforward", "cholesky", "choleskyinverse", "choleskysolve", "ctcloss", "cummax", "cummin",
    "cumprod", "cumsum", "digamma", "embedding", "embeddingbag", "embeddingdense", "gather", "gcd", "gridsampler",
    "gridsampler2d", "histc", "histogram", "igamma", "igammac", "index", "indexadd", "indexput", "indexreduce",
    "indexselect", "logcumsumexp", "luunpack", "maskedscatter", "maskedselect", "multinomial", "nanmedian",
    "pdistforward", "polygamma", "randperm", "repeatinterleave", "roll", "scatteradd", "sort", "stft",
    "svd", "topk", "tosparse", "triangularsolve", "viewascomplex",
}  # fmt: skip
"""Operators that ``torch._inductor.lowering`` leaves to PyTorch on a CPU, or that its code cannot fuse well. Names are
without underscores, as in the names of backward nodes."""
_KEPT_IN_PLACE = {"bernoulli_", "normal_", "uniform_"}
_KEPT_FAMILIES = re.compile(r"linalg(?!.*norm|cross|vecdot)|fft(?!.*shift)|segmentreduce|histogramdd")
_BACKWARD_NODE = re.compile(r"(?:.*::)?(\w+?)Backward\d*$")
_FOREIGN = re.compile(
    r"(?!aten::|torch::|autograd::|prim::|quantized::)[A-Za-z]\w*::|nccl:|record_param_comms$"
)
"""Names that are not registered by PyTorch's own libraries, and the names of its collectives."""
_HEAVY_KERNEL = re.compile(
    r"gemm|conv|wgrad|dgrad|fprop|cudnn|cutlass|flash|fmha|attention|winograd|nvjet|cijk|scudnn",
    re.IGNORECASE,
)
_POINTWISE_KERNEL = re.compile(
    r"elementwise|reduce|softmax|layer_?norm|batch_?norm|bn_|norm_|dropout|fill|copy_device|vectorized_|CatArray"
    r"|unrolled|pool|triton_|gelu|relu|sum_|cunn_|nll_loss|upsample",
    re.IGNORECASE,
)


@cache
def operator_class(name: str) -> CostClass:
    """The class of an operator by its name: ``aten::relu``, ``AddmmBackward0``, ``torch::autograd::AccumulateGrad``."""
    if "AccumulateGrad" in name:
        return CostClass.OUTSIDE
    if node := _BACKWARD_NODE.match(name):
        bare = node[1].lower()
        if work_class(bare) is not WorkClass.OTHER or bare in ("mm", "bmm", "addmm", "convolution"):
            return CostClass.HEAVY
        if bare in _VIEWS and bare not in _COPIED_BACK:
            return CostClass.VIEW
        if _is_kept(bare) or "::" in name or bare.startswith("compiledfunction"):
            return CostClass.KEPT
        return CostClass.POINTWISE
    if name == "python":
        return CostClass.VIEW
    space, _, bare = name.rpartition("::")
    if _FOREIGN.match(name):
        return CostClass.FOREIGN
    if space != "aten":
        return CostClass.KEPT
    if bare in _READS:
        return CostClass.READ
    if work_class(name) is not WorkClass.OTHER:
        return CostClass.HEAVY
    if bare in _VIEWS:
        return CostClass.VIEW
    return CostClass.KEPT if _is_kept(bare) else CostClass.POINTWISE


def _is_kept(bare: str) -> bool:
    plain = bare.replace("_", "")
    return plain in _KEPT or bare in _KEPT_IN_PLACE or _KEPT_FAMILIES.match(plain) is not None


@cache
def kernel_class(name: str) -> CostClass:
    """The class of a kernel on a GPU; kernels not known to be pointwise are ``KEPT``."""
    if work_class(name) is not WorkClass.OTHER or _HEAVY_KERNEL.search(name):
        return CostClass.HEAVY
    if name.startswith("aten::") or _BACKWARD_NODE.match(name):
        # A prediction names kernels after their operators.
        found = operator_class(name)
        return CostClass.POINTWISE if found is CostClass.VIEW else found
    return CostClass.POINTWISE if _POINTWISE_KERNEL.search(name) else CostClass.KEPT
