"""Running an unmodified script in a child process and measuring it; the only part that touches processes."""
