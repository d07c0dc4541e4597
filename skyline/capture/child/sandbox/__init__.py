"""Prevents effects of a run on the user's files, accounts and profilers."""
