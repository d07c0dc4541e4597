"""What-ifs about number formats."""
