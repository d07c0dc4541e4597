"""How a model that is trained by several processes joins its gradients."""

from __future__ import annotations

import torch

_REPLICATED = "DistributedDataParallel"
_SHARDED = ("FullyShardedDataParallel", "FSDPModule")
_MIB = 1 << 20


def parallel(modules, births):
    """The outermost wrapper among ``modules``, as of ``skyline.trace.ParallelFact``; None without one."""
    for module in modules:
        names = [cls.__name__ for cls in type(module).__mro__]
        if _REPLICATED in names:
            return _replicated(module, births)
        name = next((name for name in _SHARDED if name in names), None)
        if name is not None:
            return dict(
                _joined("FullyShardedDataParallel", module, births),
                bucket_cap_mb=None,
                gradient_as_bucket_view=None,
                static_graph=None,
                find_unused_parameters=None,
            )
    return None


def _replicated(module, births):
    cap = getattr(module, "bucket_bytes_cap", None)
    return dict(
        _joined(_REPLICATED, module, births),
        bucket_cap_mb=cap / _MIB if isinstance(cap, (int, float)) else None,
        gradient_as_bucket_view=_switch(module, "gradient_as_bucket_view"),
        static_graph=_switch(module, "static_graph"),
        find_unused_parameters=_switch(module, "find_unused_parameters"),
        comm_hook=_comm_hook(module),
    )


def _joined(name, module, births):
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
        "created_line": births.line(module),
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
    """The name of the hook that was registered last; PyTorch keeps them in a list of its own."""
    for entry in reversed(getattr(module, "_comm_hooks", None) or ()):
        hook = entry[0] if isinstance(entry, tuple) else entry
        return getattr(hook, "__qualname__", None) or type(hook).__name__
    return ""
