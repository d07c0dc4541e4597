"""What-ifs about how batches are made and brought to the device."""
