"""What-ifs about the use of memory."""
