"""Runs with several processes: the choice of the observed process, and the work of the others."""
