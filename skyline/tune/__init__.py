"""Searches for the fastest combination of changes: simulations propose, trials decide."""
