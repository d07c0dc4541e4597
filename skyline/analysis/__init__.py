"""A profile prepared for questions: graph, timeline, memory, curve and lines, computed once."""
