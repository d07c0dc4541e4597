"""Runs a script on tensors that have a shape and no memory, on a GPU that need not be there."""
