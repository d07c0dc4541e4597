"""The learned predictor: physics first, then what boosted trees learned from measured kernels to correct it by."""
