"""Performance problems, each with a stable code, a place, a cost and a what-if that removes it."""
