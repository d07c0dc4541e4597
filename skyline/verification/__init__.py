"""Predict a change, make it in memory, and measure it in turns with the script as it stands."""
