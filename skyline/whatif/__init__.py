"""The what-ifs: one file for each change, found by its name, with its assumptions and its evidence."""
