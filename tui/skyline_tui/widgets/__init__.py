"""The parts of the screen, one widget per module."""
