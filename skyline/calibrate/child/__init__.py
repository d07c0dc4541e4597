"""Runs in the user's interpreter, which has torch but may lack Skyline."""
