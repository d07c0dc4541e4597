"""Records iterations: converts the profiler's events to rows with lines, shapes and memory."""
