"""Changes that can be asked about: one file each, found by name, each with its assumptions and its evidence."""
