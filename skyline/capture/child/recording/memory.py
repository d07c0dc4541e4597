"""Live tensor memory, by owner, at an iteration boundary."""

from __future__ import annotations

import gc
import os
import re
import sys

import torch

from ..observed_keras import parameters_of, state_of


def live_tensors(device_kind, optimizers):
    """Bytes of the distinct live storages on the script's device, by owner.

    A storage belongs to the first of these owners that holds it: parameters of the optimizers and modules, their
    gradients, optimizer state, everything else (buffers, datasets held as tensors, other tensors of the script).
    """
    seen = set()
    tensors = [thing for thing in gc.get_objects() if _is_tensor(thing)]
    parameters, states = of_optimizers(optimizers)
    # Keras also stores the state of its optimizers in parameters.
    kept = set(map(id, states))
    parameters += [
        tensor
        for tensor in tensors
        if issubclass(type(tensor), torch.nn.Parameter) and id(tensor) not in kept
    ]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return {
        "parameter_bytes": _take(parameters, device_kind, seen),
        "gradient_bytes": _take(gradients, device_kind, seen),
        "optimizer_bytes": _take(states, device_kind, seen),
        "other_bytes": _take(tensors, device_kind, seen),
    }


def of_optimizers(optimizers):
    """The parameters that optimizers update, and the tensors of their state."""
    parameters, states = [], []
    for _, optimizer in optimizers:
        parameters += parameters_of(optimizer)
        states += state_of(optimizer)
    return parameters, states


def peak(live, allocations):
    """Peak live bytes of the last recorded iteration, from its allocations.

    It is counted backwards from the live memory at the end, because the recording may lack frees of blocks that were
    allocated before it began.
    """
    current = highest = sum(live.values())
    for allocation in reversed(allocations):
        current -= allocation["size_bytes"]
        highest = max(highest, current)
    return highest


def state_bytes(optimizer):
    """Bytes of an optimizer's state."""
    return sum(value.numel() * value.element_size() for value in state_of(optimizer))


def _is_tensor(thing):
    # type() is used because isinstance() reads __class__, at which lazy proxies import and compute.
    return issubclass(type(thing), torch.Tensor)


def _is_fake(tensor):
    """True for a fake tensor of torch.compile, which has no bytes; reading its address would warn or raise."""
    fake = getattr(sys.modules.get("torch._subclasses.fake_tensor"), "FakeTensor", None)
    return fake is not None and issubclass(type(tensor), fake)


def _take(tensors, device_kind, seen):
    total = 0
    for tensor in tensors:
        try:
            if tensor.device.type != device_kind or tensor.layout is not torch.strided or _is_fake(tensor):
                continue
            storage = tensor.untyped_storage()
            key = storage.data_ptr()
            size = storage.nbytes()
        except (RuntimeError, NotImplementedError, AttributeError):
            continue  # fake, meta, freed or functional tensors own no bytes here
        if key and key not in seen:
            seen.add(key)
            total += size
    return total


def device_memory(devices):
    """The fields of ``skyline.trace.facts.DeviceMemoryFact``; None if there is no such device.

    The memory of several devices is summed, except that free memory counts only as far as the script can use it with
    its present distribution over the devices.
    """
    told = devices.free_and_total_bytes()
    if told is None:
        return None
    free, total = told
    parts = split(devices.stats(), free, total, _own_bytes(devices))
    room, _ = devices.room_and_capacity_bytes()
    return dict(parts, free_bytes=room)


def split(stats, free, total, own_bytes=None):
    """The device's memory by holder.

    ``stats`` are the caching allocator's. ``own_bytes`` is the memory of this process according to the driver. If the
    driver reports nothing, the context cannot be distinguished from other processes: all memory outside the
    allocator counts as context.
    """
    reserved = stats.get("reserved_bytes.all.current", 0)
    used = total - free
    own = min(used, own_bytes) if own_bytes else used
    return {
        "total_bytes": total,
        "free_bytes": free,
        "allocated_peak_bytes": stats.get("allocated_bytes.all.peak", 0),
        "reserved_bytes": stats.get("reserved_bytes.all.peak", reserved),
        "context_bytes": max(0, own - reserved),
        "other_process_bytes": max(0, used - max(own, reserved)),
    }


def _own_bytes(devices):
    """This process's memory according to the driver; None if PyTorch lacks the driver's bindings to query it."""
    try:
        shares = [share_of(os.getpid(), printed) for printed in devices.processes()]
    except Exception:
        return None  # no permission, or a device that the driver does not know by this name
    return None if None in shares else sum(shares)


def share_of(process, printed):
    """The bytes of one process in the output of ``torch.cuda.list_gpu_processes``; None if it is not listed.

    It is not listed if the bindings are missing, or if a container has its own process numbers.
    """
    found = re.search(rf"process +{process} uses +([0-9.]+) MB", printed)
    return round(float(found.group(1)) * 2**20) if found else None
