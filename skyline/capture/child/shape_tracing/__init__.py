"""Runs a script on tensors with shapes but without memory, on a GPU that need not exist."""
