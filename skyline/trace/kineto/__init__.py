"""Reader of the traces of PyTorch's own profiler (Kineto): every version since 2020, on any accelerator."""
