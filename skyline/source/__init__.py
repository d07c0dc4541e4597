"""Static analysis of the user's source: text positions, knobs, loops, edits. No code is executed."""
