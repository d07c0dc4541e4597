"""What is known of a PyTorch operator from its schema."""

from __future__ import annotations

import torch

_NO_KERNEL = frozenset(
    (
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::lift_fresh",
        "aten::_unsafe_view",
        "aten::lift",
        "aten::empty_permuted",
        "aten::_local_scalar_dense",
        "aten::_reshape_alias",
        "aten::resize_",
        "aten::set_",
        "aten::detach_",
        "aten::is_same_size",
        "aten::sym_size",
        "aten::squeeze_",
        "aten::unsqueeze_",
        "aten::t_",
        "aten::transpose_",
        "aten::as_strided_",
        "aten::_has_compatible_shallow_copy_type",
    )
)
_known = {}


class Operator:
    """``writes``: changes an argument. ``views``: gives another look at an argument's memory. ``random``: draws."""

    __slots__ = ("has_kernel", "is_copy", "name", "random", "views", "writes")

    def __init__(self, func):
        schema = func._schema
        self.name = schema.name
        aliases = [argument.alias_info for argument in schema.arguments if argument.alias_info is not None]
        self.writes = any(alias.is_write for alias in aliases)
        self.views = bool(aliases) and not self.writes
        self.random = torch.Tag.nondeterministic_seeded in func.tags
        self.has_kernel = not self.views and self.name not in _NO_KERNEL
        self.is_copy = self.name in ("aten::_to_copy", "aten::copy_")


def operator(func):
    """The description of an overload; each is read once."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = Operator(func)
    return found
