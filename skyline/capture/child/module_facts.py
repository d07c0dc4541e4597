"""Facts about the modules of the model that trains."""

from __future__ import annotations

import gc
import os
from collections import Counter

import torch

from . import user_code

MOST = 1_000


def module_facts(named, seen, module_lines, updated=()):
    """Rows of ``skyline.trace.ModuleFact``, and the total number of modules.

    ``named`` are pairs of a path and a module, in the order of ``named_modules()`` under each root. Only roots with a
    parameter in ``updated`` count. If there is none, because the script updates parameters by hand or through
    flattened copies, roots with a parameter that requires a gradient count. If there are more than ``MOST`` modules,
    those with the most memory are reported.
    """
    roots = _roots(named)
    addresses = {id(parameter) for parameter in updated}
    trained = [root for root in roots if any(id(one) in addresses for one in root[0][1].parameters())]
    if not trained:
        trained = [root for root in roots if any(one.requires_grad for one in root[0][1].parameters())]
    rows = [row for root in trained for row in root]
    lists = {id(module) for root in trained for module in _repeating(root)}
    # Two models of one class have the same paths, and kept bytes were counted by path.
    shared = {path for path, count in Counter(path for path, _ in rows).items() if count > 1}
    told = rows
    if len(rows) > MOST:
        sizes = {id(module): _own_bytes(module) + seen.kept.get(path, 0) for path, module in rows}
        largest = {id(module) for _, module in sorted(rows, key=lambda row: -sizes[id(row[1])])[:MOST]}
        told = [row for row in rows if id(row[1]) in largest]
    facts = [_row(path, module, seen, module_lines, path not in shared) for path, module in told]
    for fact, (_, module) in zip(facts, told, strict=True):
        if id(module) in lists:
            fact["parameter_count"] = 0
    return facts, len(rows)


def _repeating(root):
    """Containers whose parameters deeper modules also hold, such as the list of all parameters in a Keras model."""
    deepest = {}
    for path, module in root:
        for parameter in module._parameters.values():
            deepest[id(parameter)] = max(deepest.get(id(parameter), 0), path.count("."))
    for path, module in root:
        held = [id(one) for one in module._parameters.values() if one is not None]
        lists = isinstance(module, (torch.nn.ParameterDict, torch.nn.ParameterList))
        if lists and held and all(deepest[one] > path.count(".") for one in held):
            yield module


def _roots(named):
    """The pairs of each root, with the root first."""
    roots = []
    for path, module in named:
        if "." not in path or not roots:
            roots.append([])
        roots[-1].append((path, module))
    return roots


def _row(path, module, seen, module_lines, path_is_its_own):
    parameters = [one for one in module._parameters.values() if one is not None]
    calls = seen.modules.get(id(module))
    return {
        "path": path,
        "class_name": type(module).__name__,
        "library": is_library(module),
        "parameter_count": sum(_elements(one) for one in parameters),
        "trainable": any(one.requires_grad for one in parameters),
        "options": options(module),
        "calls_per_iteration": seen.calls_per_iteration(id(module)),
        "channels_last": _channels_last(module),
        "checkpointed": calls is not None and calls.checkpointed,
        "created_line": module_lines.line(module),
        "class_line": _class_line(type(module)),
        "call_line": seen.call_line(id(module)),
        "kept_bytes": seen.kept.get(path, 0) if calls is not None and path_is_its_own else None,
    }


def _elements(parameter):
    try:
        return parameter.numel()
    except (RuntimeError, ValueError):
        # The parameter of a lazy module has no size before its first call.
        return 0


def _own_bytes(module):
    return sum(_elements(one) * one.element_size() for one in module._parameters.values() if one is not None)


def _channels_last(module):
    """True for channels last, judged by strides, since a 1x1 kernel is contiguous in both formats; None if unknown."""
    for parameter in module._parameters.values():
        try:
            if parameter is not None and parameter.dim() == 4:
                _, channels, height, width = parameter.shape
                strides = (height * width * channels, 1, width * channels, channels)
                return tuple(getattr(parameter, "meta", parameter).stride()) == strides
        except (RuntimeError, ValueError):
            continue
    return None


def _class_line(cls):
    """The first line of ``forward``, if the class is in the user's code."""
    forward = getattr(cls, "forward", None)
    code = getattr(getattr(forward, "__wrapped__", forward), "__code__", None)
    if code is None or not user_code.is_user_file(code.co_filename):
        return None
    return {
        "file": os.path.realpath(code.co_filename),
        "line": code.co_firstlineno,
        "function": user_code.qualified_name(code),
    }


_WELL_KNOWN = (
    "in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride", "padding",
    "output_padding", "dilation", "groups", "padding_mode", "num_features", "normalized_shape",
    "num_groups", "num_channels", "eps", "momentum", "affine", "elementwise_affine", "track_running_stats",
    "num_embeddings", "embedding_dim", "padding_idx", "max_norm", "scale_grad_by_freq", "sparse", "mode",
    "p", "inplace", "embed_dim", "num_heads", "dropout", "batch_first", "norm_first", "input_size",
    "hidden_size", "num_layers", "bidirectional", "proj_size", "scale_factor", "output_size", "approximate",
    "negative_slope", "reduction", "label_smoothing",
)  # fmt: skip
_MOST = 20
_MOST_OWN = 8
_LONGEST = 40


def is_library(module):
    """True if PyTorch defines the class of a module."""
    return type(module).__module__.partition(".")[0] == "torch"


def options(module):
    """Options by name: well-known options of PyTorch's classes, and a few plain attributes of other classes."""
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
    """The value if it is plain, else this function as a marker."""
    if value is None or type(value) in (int, float, bool):
        return value
    if type(value) is str:
        return value if len(value) <= _LONGEST else _plain
    if isinstance(value, (tuple, list)) and len(value) <= 8 and all(type(item) is int for item in value):
        return list(value)
    return _plain


def named_modules():
    """Pairs of a path (``"ResNet.layer1.conv"``) and a module, root by root; roots are named by their class."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), torch.nn.Module)]
    children = {id(child) for module in modules for child in module.children()}
    return [
        pair
        for root in modules
        if id(root) not in children
        for pair in root.named_modules(prefix=type(root).__name__)
    ]


def module_names():
    """Paths of all modules by address; a module with several paths has its first one."""
    names = {}
    for path, module in named_modules():
        names.setdefault(id(module), path)
    return names
