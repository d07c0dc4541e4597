"""Changes that can be asked about a recording of PyTorch's own profiler: what is known is what it holds."""
