"""What-ifs about the host: its threads, its calls, its waits, and its GPU."""
