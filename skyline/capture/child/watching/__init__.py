"""Hooks in a watched training run, which is the user's own run without a sandbox.

Every Python process below ``skyline watch`` imports ``startup/sitecustomize.py``, which installs the hooks once PyTorch
has been imported. They write records to a local socket and never wait for its reader. No hook changes a number,
draws a random number, or waits for a device.
"""
