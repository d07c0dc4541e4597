"""Keeps what a run does to the world away from the person's files, accounts and profilers."""
