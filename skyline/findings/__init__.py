"""Performance problems, each with a stable code, a place, a cost and the what-if that would cure it."""
