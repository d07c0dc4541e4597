"""What-ifs about how much is in memory at a time."""
