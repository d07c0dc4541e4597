"""The devices that the script computes on: the one place that asks PyTorch about them.

NVIDIA's and AMD's GPUs are ``cuda``, Intel's ``xpu``, Apple's ``mps``; without any of them there is the ``cpu``, on
which nothing is ever waited for. A backend of somebody else's, on PyTorch's PrivateUse1 seam, is a device of a kind of
its own: it goes by the name that it gave itself (``torch.utils.rename_privateuse1_backend``), which is also the
type of device that its tensors tell. It is asked through the module that it registered under that name
(``torch._register_device_module``), by the names that ``torch.cuda`` has:

- ``is_initialized()``: whether this process uses it, told without beginning to; ``device_count()``;
- ``synchronize(device)``: waits until all that was launched on that device is done;
- ``Event(enable_timing=True)`` with ``record(stream)``, ``synchronize()`` and ``elapsed_time(other)`` in ms, and
  ``current_stream(device)``: without them each iteration waits for the device and is timed by the host;
- ``memory_allocated(device)``, ``memory_reserved(device)``, ``max_memory_allocated(device)``,
  ``reset_peak_memory_stats(device)``, ``memory_stats(device)``, ``mem_get_info(device)`` (free and total bytes): what
  it does not have is asked of ``torch.accelerator``, and not told where that does not know it either;
- ``empty_cache()``, ``get_device_name(device)``, ``get_device_properties(device)``, ``get_rng_state(device)``;
- ``is_current_stream_capturing()``, and a class ``CUDAGraph`` as of ``torch.cuda`` where it captures graphs.

For a profile with kernels it hands its activities to Kineto, as ``ProfilerActivity.PrivateUse1``.
"""
