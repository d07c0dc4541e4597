"""What can be read from the person's source without running it: text positions, knobs, loops, edits."""
