"""Operator times corrected by measurements of the same device."""
