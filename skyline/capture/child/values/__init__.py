"""Values in the script's tensors, looked at in iterations that are neither timed nor recorded."""
