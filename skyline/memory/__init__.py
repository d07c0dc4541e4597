"""How much memory the tensors take at most, who owns it, which line keeps it, and whether it fits."""
