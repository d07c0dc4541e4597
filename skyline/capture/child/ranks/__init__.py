"""Runs of several processes: which one is observed, and what the others do meanwhile."""
