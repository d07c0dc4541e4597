"""Hooks in a training run that is watched: the person's own run, not a sandboxed one.

``startup/sitecustomize.py`` is imported by every Python process below ``skyline watch``, and installs the hooks once
PyTorch has been imported. They write records to a local socket and never wait for its reader. No hook changes a number,
draws a random number, or waits for a device.
"""
