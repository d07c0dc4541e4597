"""Measures what predictions of operator times rest on, on the machine at hand."""
