"""The learned predictor: a physical model, corrected by boosted trees that were trained on measured kernels."""
