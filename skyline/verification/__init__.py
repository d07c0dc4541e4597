"""Predicts a change, makes it in memory, and measures it in turns with the unchanged script."""
