"""What a GPU's memory holds beside the tensors of the script."""

from __future__ import annotations

import os

import torch


def device_memory(device_kind):
    """Facts in the shape of ``skyline.trace.facts.DeviceMemoryFact``; None where there is no such device."""
    if device_kind != "cuda":
        return None
    free, total = torch.cuda.mem_get_info()
    return split(torch.cuda.memory_stats(), free, total, _own_bytes())


def split(stats, free, total, own_bytes=None):
    """The device's memory by who holds it.

    ``stats`` are the caching allocator's, ``own_bytes`` what the driver says this process holds. Where the driver
    says nothing, the context cannot be told from other processes: all that is beside the allocator counts as context.
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


def _own_bytes():
    """This process's share by NVML, where its bindings are installed; None else."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByPciBusId(_bus_id())
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
            if process.pid == os.getpid():
                return process.usedGpuMemory
    except Exception:
        return None  # no bindings, no right to ask, another numbering inside a container
    return None


def _bus_id():
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return f"{device.pci_domain_id:08x}:{device.pci_bus_id:02x}:{device.pci_device_id:02x}.0"
