"""The parts of the screen, one widget a module."""
