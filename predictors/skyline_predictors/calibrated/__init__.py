"""Operator times corrected by what was measured on the very device."""
