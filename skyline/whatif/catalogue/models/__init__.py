"""What-ifs about layers, their layout and their updates."""
