"""What-ifs about training on several processes or devices."""
