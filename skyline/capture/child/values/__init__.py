"""Reads values in the script's tensors, in iterations that are neither timed nor recorded."""
