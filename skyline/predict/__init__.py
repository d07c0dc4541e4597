"""Prediction of time and memory at other batch sizes and on other GPUs."""
