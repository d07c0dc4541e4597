"""What-ifs about the exchange between processes that train together."""
