"""A profile made ready for questions: graph, timeline, memory, curve and lines, computed once."""
