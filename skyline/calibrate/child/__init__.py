"""Runs in the person's interpreter, which has torch and need not have Skyline."""
