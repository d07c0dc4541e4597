"""Finds the places of a training script that rewrites need, or refuses with a precise reason."""
