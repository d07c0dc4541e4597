"""What-ifs about the host: its threads, its calls, its waits, and the GPU beside it."""
