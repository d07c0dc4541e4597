"""The numbers and switches that a module was made with."""

from __future__ import annotations

_WELL_KNOWN = (
    "in_features",
    "out_features",
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "output_padding",
    "dilation",
    "groups",
    "padding_mode",
    "num_features",
    "normalized_shape",
    "num_groups",
    "num_channels",
    "eps",
    "momentum",
    "affine",
    "elementwise_affine",
    "track_running_stats",
    "num_embeddings",
    "embedding_dim",
    "padding_idx",
    "max_norm",
    "scale_grad_by_freq",
    "sparse",
    "mode",
    "p",
    "inplace",
    "embed_dim",
    "num_heads",
    "dropout",
    "batch_first",
    "norm_first",
    "input_size",
    "hidden_size",
    "num_layers",
    "bidirectional",
    "proj_size",
    "scale_factor",
    "output_size",
    "approximate",
    "negative_slope",
    "reduction",
    "label_smoothing",
)
_MOST = 20
_MOST_OWN = 8
_LONGEST = 40


def is_library(module):
    """Whether PyTorch defines the class of a module."""
    return type(module).__module__.partition(".")[0] == "torch"


def options(module):
    """By name. Of PyTorch's classes what they are known by, of others their plain attributes, only a few."""
    held = vars(module)
    if not is_library(module):
        plain = ((name, value) for name, value in held.items() if _is_own(name, value))
        return dict(list(plain)[:_MOST_OWN])
    constants = getattr(type(module), "__constants__", ())
    found = {}
    for name in dict.fromkeys((*_WELL_KNOWN, *constants)):
        value = _plain(held.get(name, _plain))
        if value is not _plain:
            found[name] = value
    if "bias" in module._parameters:
        found["bias"] = module._parameters["bias"] is not None
    elif isinstance(held.get("bias"), bool):
        found["bias"] = held["bias"]
    return dict(list(found.items())[:_MOST])


def _is_own(name, value):
    return not name.startswith("_") and name != "training" and type(value) in (int, float, bool)


def _plain(value):
    """The value where it is one that can be told, else this function."""
    if value is None or type(value) in (int, float, bool):
        return value
    if type(value) is str:
        return value if len(value) <= _LONGEST else _plain
    if isinstance(value, (tuple, list)) and len(value) <= 8 and all(type(item) is int for item in value):
        return list(value)
    return _plain
