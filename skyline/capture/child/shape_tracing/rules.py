"""Shape rules for operators whose result shape depends on numbers, or for which PyTorch has no rule."""

from __future__ import annotations

import torch

from .virtual import meta_like

_MOST_REAL_BYTES = 1 << 28


class CannotFollow(RuntimeError):
    """The script does something that cannot be traced; it would have worked without Skyline."""

    def __init__(self, message, hint):
        super().__init__(message)
        self.skyline_hint = hint


_SPARSE = {"aten::embedding": 4, "aten::_embedding_bag": 5}
"""Position of the argument that requests a sparse gradient, by operator."""


def refuse_sparse_gradient(name, args):
    """Refuse a sparse gradient at the line of the lookup, instead of later in the backward pass."""
    position = _SPARSE.get(name)
    if position is None or len(args) <= position or args[position] is not True:
        return
    if args[0].requires_grad and torch.is_grad_enabled():
        raise _sparse("sparse=True makes a sparse gradient")


def _sparse(what):
    return CannotFollow(
        f"{what}, which cannot be traced without the GPU: its number of rows depends on computed values",
        "Pass sparse=False to Embedding or EmbeddingBag, or profile on this machine without --gpu.",
    )


def _meta(shape, dtype):
    return torch.empty(shape, dtype=dtype, device="meta")


def _nonzero(args, kwargs):
    # Half of the elements is assumed: a script usually selects neither none nor all of them.
    return _meta((max(1, args[0].numel() // 2), args[0].dim()), torch.int64)


def _masked_select(args, kwargs, known=None):
    shape = torch.broadcast_shapes(args[0].shape, args[1].shape)
    repeated = shape.numel() // max(1, args[1].numel())
    return _meta((max(1, shape.numel() // 2) if known is None else known * repeated,), args[0].dtype)


def _index(args, kwargs, known=None):
    """Replace a boolean mask by as many integer indices as it has true values; half of all if unknown."""
    indices = []
    for index in args[1]:
        if index is not None and _is_mask(index):
            picked = max(1, index.numel() // 2) if known is None else known
            indices += [_meta((picked,), torch.int64) for _ in range(index.dim())]
        else:
            indices.append(index)
    return torch.ops.aten.index.Tensor(args[0], indices)


def _is_mask(index):
    return index.dtype in (torch.bool, torch.uint8)


def picked_by_masks(name, args, known):
    """The number of elements that the masks of an operator select, if the numbers of one are known; else None.

    ``known`` returns the numbers of a tensor, or None. Several masks select the same number, since their indices are
    paired.
    """
    masks = ()
    if name == "aten::index":
        masks = (index for index in args[1] if index is not None and _is_mask(index))
    elif name == "aten::masked_select":
        masks = args[1:2]
    for mask in masks:
        numbers = known(mask)
        if numbers is not None:
            return int(torch.count_nonzero(numbers))
    return None


def _index_put(args, kwargs):
    return args[0]


def _unique(args, kwargs):
    count = args[0].numel()
    inverse = args[0].shape if len(args) > 2 and args[2] else (0,)
    return _meta((count,), args[0].dtype), _meta(inverse, torch.int64), _meta((count,), torch.int64)


def _unique_dim(args, kwargs):
    size = args[0].shape[args[1]]
    return meta_like(args[0]), _meta((size,), torch.int64), _meta((size,), torch.int64)


def _bincount(args, kwargs):
    least = args[2] if len(args) > 2 else kwargs.get("minlength", 0)
    return _meta((max(1, least),), torch.int64)


def _repeat_interleave(args, kwargs):
    size = kwargs.get("output_size") or args[0].numel()
    return _meta((size,), torch.int64)


def _rnn_layer_backward(args, kwargs):
    inputs, weights, hidden, cell = args[0], args[1:5], args[5], args[6]
    return (
        meta_like(inputs),
        meta_like(weights[0]),
        meta_like(weights[1]),
        meta_like(weights[2]),
        meta_like(weights[2]),
        meta_like(hidden),
        meta_like(cell),
    )


def _rnn_layer(args, kwargs):
    """The results on a GPU, whose library stores four gates, the cell and the output of each step for backward."""
    inputs, hidden, train = args[0], args[5], args[15]
    steps, batch = inputs.shape[:2]
    size = hidden.shape[-1]
    kept = 6 * size * steps * batch * inputs.element_size() if train else 0
    return (
        _meta((steps, batch, size), inputs.dtype),
        meta_like(hidden),
        meta_like(args[6]),
        _meta((kept,), torch.uint8),
    )


def _convolution(args, kwargs):
    """The result on a GPU: images are channels last if the input or the weights are."""
    made = torch.ops.aten.convolution.default(*args, **kwargs)
    if made.dim() == 4 and any(_channels_last(one) for one in args[:2]):
        return torch.empty(made.shape, dtype=made.dtype, device="meta", memory_format=torch.channels_last)
    return made


def _channels_last(tensor):
    return tensor.is_contiguous(memory_format=torch.channels_last) and not tensor.is_contiguous()


_DATA_DEPENDENT = {
    "aten::nonzero": _nonzero,
    "aten::masked_select": _masked_select,
    "aten::_unique2": _unique,
    "aten::_unique": _unique,
    "aten::unique_dim": _unique_dim,
    "aten::bincount": _bincount,
    "aten::repeat_interleave": _repeat_interleave,
}

_OWN = {"aten::mkldnn_rnn_layer_backward": _rnn_layer_backward}
_OWN_ON_GPU = {**_OWN, "aten::mkldnn_rnn_layer": _rnn_layer, "aten::convolution": _convolution}
_ON_ZEROS = frozenset(("aten::mkldnn_rnn_layer",))
"""CPU operators with internal memory, which must be executed (on zeros) to find their shapes."""


def data_dependent(name, args):
    """The rule for an operator whose result shape depends on numbers, or None. Such an operator waits for the GPU."""
    if name == "aten::repeat_interleave" and len(args) > 1:
        return None
    if name in ("aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"):
        if any(index is not None and _is_mask(index) for index in args[1]):
            return _index if name == "aten::index" else _index_put
        return None
    return _DATA_DEPENDENT.get(name)


class Rules:
    """Finds the shapes of results, and caches them: a network calls the same operators many times."""

    def __init__(self, for_gpu):
        self._own = _OWN_ON_GPU if for_gpu else _OWN
        self._remembered = {}

    def shaped(self, func, one, args, kwargs):
        """The result of an operator without memory, by PyTorch's shape rule, by our rule, or by execution on zeros."""
        if one.views:
            return self._found(func, one.name, args, kwargs)
        tensors = []
        try:
            key = (func, _signature(args, tensors), _signature(tuple(kwargs.items()), tensors))
            template = self._remembered.get(key)
        except TypeError:
            return self._found(func, one.name, args, kwargs)
        if template is not None:
            return _made(template, tensors)
        shapes = [(tensor.shape, tensor.stride()) for tensor in tensors] if one.writes else None
        result = self._found(func, one.name, args, kwargs)
        if shapes is None or shapes == [(tensor.shape, tensor.stride()) for tensor in tensors]:
            template = _template(result, tensors, {tensor.untyped_storage()._cdata for tensor in tensors})
            if template is not None:
                self._remembered[key] = template
        return result

    def _found(self, func, name, args, kwargs):
        own = self._own.get(name)
        if own is not None:
            return own(args, kwargs)
        zeros = name in _ON_ZEROS
        if not zeros:
            try:
                result = func(*args, **kwargs)
            except NotImplementedError:
                zeros = True
        if zeros:
            result = _on_zeros(func, args, kwargs)
        for one in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(one, torch.Tensor) and one.layout is not torch.strided:
                raise _sparse(f"{name.partition('::')[2]} makes a sparse tensor")
        return result


class _SameArgument:
    """A result that is the argument with this number."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number


class _New:
    """A result that is a new tensor."""

    __slots__ = ("dtype", "shape", "strides")

    def __init__(self, tensor):
        self.shape, self.strides, self.dtype = tensor.shape, tensor.stride(), tensor.dtype


class _Value:
    """A result that is not a tensor."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def _signature(value, tensors):
    if isinstance(value, torch.Tensor):
        tensors.append(value)
        return value.shape, value.stride(), value.dtype
    if isinstance(value, (list, tuple)):
        return tuple(_signature(item, tensors) for item in value)
    return type(value), value


def _template(result, tensors, storages):
    """A template to create the result again; None if that is unsafe because the result shares memory."""
    if isinstance(result, torch.Tensor):
        for number, tensor in enumerate(tensors):
            if tensor is result:
                return _SameArgument(number)
        if not result.is_meta or result.untyped_storage()._cdata in storages:
            return None
        return _New(result)
    if isinstance(result, (list, tuple)):
        parts = [_template(item, tensors, storages) for item in result]
        return None if any(part is None for part in parts) else parts
    return _Value(result)


def _made(template, tensors):
    if type(template) is _New:
        return torch.empty_strided(template.shape, template.strides, dtype=template.dtype, device="meta")
    if type(template) is _SameArgument:
        return tensors[template.number]
    if type(template) is list:
        return tuple(_made(part, tensors) for part in template)
    return template.value


def _on_zeros(func, args, kwargs):
    size = 0

    def real(value):
        nonlocal size
        if isinstance(value, torch.Tensor):
            size += value.numel() * value.element_size()
            if size > _MOST_REAL_BYTES:
                raise NotImplementedError(f"{func} has no shape rule")
            return torch.zeros(value.shape, dtype=value.dtype)
        if type(value) in (list, tuple):
            return type(value)(real(item) for item in value)
        return torch.device("cpu") if isinstance(value, torch.device) else value

    arguments = [real(value) for value in args]
    options = {name: real(value) for name, value in kwargs.items()}
    result = func(*arguments, **options)
    if isinstance(result, torch.Tensor):
        return meta_like(result)
    return tuple(meta_like(one) if isinstance(one, torch.Tensor) else one for one in result)
