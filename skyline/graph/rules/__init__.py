"""What waits for what in a profiler trace: one rule a module, each a function of plain columns."""
