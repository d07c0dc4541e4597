"""Peak memory of the tensors: its size, its owners, its lines, and whether it fits."""
