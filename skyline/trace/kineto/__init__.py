"""Reading what PyTorch's own profiler (Kineto) wrote: every version since 2020, on any accelerator."""
