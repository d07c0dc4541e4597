"""Measures operator times on the local machine, as a basis of predictions."""
