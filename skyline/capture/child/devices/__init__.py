"""The devices on which the script computes: only this package queries PyTorch about them.

GPUs of NVIDIA and AMD are ``cuda``, Intel's ``xpu``, Apple's ``mps``. Without any of them the device is the ``cpu``,
which never needs a wait. A third-party backend on PyTorch's PrivateUse1 interface is a kind of device of its own. Its
kind is the name that it has set (``torch.utils.rename_privateuse1_backend``), which is also the device type of its
tensors. It is queried through the module that it has registered under this name
(``torch._register_device_module``), with these functions of ``torch.cuda``:

- ``is_initialized()``: True if this process uses it, without initialising it; ``device_count()``;
- ``synchronize(device)``: waits until all work launched on that device is done;
- ``Event(enable_timing=True)`` with ``record(stream)``, ``synchronize()`` and ``elapsed_time(other)`` in ms, and
  ``current_stream(device)``: without them each iteration waits for the device, and the host times it;
- ``memory_allocated(device)``, ``memory_reserved(device)``, ``max_memory_allocated(device)``,
  ``reset_peak_memory_stats(device)``, ``memory_stats(device)``, ``mem_get_info(device)`` (free and total bytes): for a
  missing function ``torch.accelerator`` is queried, and if that fails too, the fact is unknown;
- ``empty_cache()``, ``get_device_name(device)``, ``get_device_properties(device)``, ``get_rng_state(device)``;
- ``is_current_stream_capturing()``, and a class ``CUDAGraph`` like that of ``torch.cuda``, if it captures graphs.

For a profile with kernels, the backend must pass its activities to Kineto, as ``ProfilerActivity.PrivateUse1``.
"""
