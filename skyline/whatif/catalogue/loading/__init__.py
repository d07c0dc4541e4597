"""What-ifs about making batches and copying them to the device."""
