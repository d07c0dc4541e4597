"""Facts of a recording other than its rows: settings, modules, data parallelism, and calls."""

from __future__ import annotations

import os
import sys

import torch

from . import user_code
from .module_facts import module_facts
from .styles import compiled_frames


def recorded_facts(observer, devices, observed_calls, named, updated):
    """The facts as a dictionary with fields of ``skyline.capture.recording.ChildRecording``.

    ``named`` are pairs of a path and a module; a module with several paths counts once.
    ``updated`` are the parameters that optimizers update.
    """
    once = {}
    for path, module in named:
        once.setdefault(id(module), (path, module))
    observed_calls.complete = not compiled_frames()
    modules, count = module_facts(once.values(), observed_calls, observer.module_lines, updated)
    return {
        "settings": settings(devices, observer.styles.autocast),
        "modules": modules,
        "module_count": count,
        "parallel": parallel([module for _, module in once.values()], observer.module_lines),
        "calls": [*observed_calls.rows(), *observer.compiled, *graph_breaks()],
    }


_MOST = 50
_LONGEST = 200


def graph_breaks():
    """The distinct graph breaks as rows of ``skyline.trace.CallFact``; none if nothing was compiled."""
    utils = sys.modules.get("torch._dynamo.utils")
    rows = []
    for told in list(getattr(utils, "graph_break_reasons", None) or ())[:_MOST]:
        row = {
            "name": "graph break",
            "per_iteration": 0.0,
            "line": _line(getattr(told, "user_stack", None)),
            "options": {"reason": _plain(str(getattr(told, "reason", "")))},
        }
        if row not in rows:
            rows.append(row)
    return rows


def _line(stack):
    """The line of the innermost of these frames in the user's code, or None."""
    for frame in reversed(list(stack or ())):
        if user_code.is_user_file(frame.filename):
            return {"file": os.path.realpath(frame.filename), "line": frame.lineno, "function": frame.name}
    return None


def _plain(reason):
    """The first line of a reason; later lines have explanations and hints."""
    if reason.startswith("generic_jump"):
        return "a branch depends on the numbers in a tensor"
    return reason.strip().split("\n")[0].strip()[:_LONGEST]


def settings(devices, autocast):
    """The settings of PyTorch that affect speed and accuracy, as in ``skyline.trace.facts.TorchSettings``.

    ``autocast`` is the number format seen around the forward pass. A setting that this version of PyTorch does not
    have or report is None. A device is queried only if the script computes on it.
    """
    return {
        "matmul_precision": _asked(torch.get_float32_matmul_precision),
        "cudnn_tf32": _asked(lambda: bool(torch.backends.cudnn.allow_tf32)),
        "cudnn_benchmark": _asked(lambda: bool(torch.backends.cudnn.benchmark)),
        "deterministic": _asked(torch.are_deterministic_algorithms_enabled),
        "autocast": autocast,
        "compute_capability": _asked(devices.capability),
    }


def _asked(question):
    try:
        return question()
    except Exception:
        # PyTorch raises many kinds of errors for settings that contradict each other.
        return None


_REPLICATED = "DistributedDataParallel"
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")
_MIB = 1 << 20


def parallel(modules, module_lines):
    """The outermost parallel wrapper among ``modules``, as in ``skyline.trace.ParallelFact``; None without one."""
    for module in modules:
        names = [cls.__name__ for cls in type(module).__mro__]
        if _REPLICATED in names:
            return _replicated(module, module_lines)
        name = next((name for name in _SHARDED if name in names), None)
        if name is not None:
            return dict(
                _joined("FullyShardedDataParallel", module, module_lines),
                bucket_cap_mb=None,
                gradient_as_bucket_view=None,
                static_graph=None,
                find_unused_parameters=None,
            )
    return None


def _replicated(module, module_lines):
    cap = getattr(module, "bucket_bytes_cap", None)
    return dict(
        _joined(_REPLICATED, module, module_lines),
        bucket_cap_mb=cap / _MIB if isinstance(cap, (int, float)) else None,
        gradient_as_bucket_view=_switch(module, "gradient_as_bucket_view"),
        static_graph=_switch(module, "static_graph"),
        find_unused_parameters=_switch(module, "find_unused_parameters"),
        comm_hook=_comm_hook(module),
    )


def _joined(name, module, module_lines):
    group = getattr(module, "process_group", None)
    return {
        "name": name,
        "backend": _of_group(torch.distributed.get_backend, group, ""),
        "world_size": _of_group(torch.distributed.get_world_size, group, 1),
        "gradient_bytes": sum(
            parameter.numel() * parameter.element_size()
            for parameter in module.parameters()
            if parameter.requires_grad
        ),
        "created_line": module_lines.line(module),
    }


def _of_group(question, group, otherwise):
    try:
        return question(group)
    except (RuntimeError, ValueError, AttributeError, TypeError):
        return otherwise


def _switch(module, name):
    value = getattr(module, name, None)
    return None if value is None else bool(value)


def _comm_hook(module):
    """The name of the communication hook that was registered last; empty if there is none."""
    for entry in reversed(getattr(module, "_comm_hooks", None) or ()):
        hook = entry[0] if isinstance(entry, tuple) else entry
        return getattr(hook, "__qualname__", None) or type(hook).__name__
    return ""
