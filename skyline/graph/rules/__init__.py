"""Rules that find the dependencies in a profiler trace: one rule per module, each a function of plain columns."""
