"""The dependency graph of the recorded iterations: tasks on lanes, what waits for what, and how to change it."""
