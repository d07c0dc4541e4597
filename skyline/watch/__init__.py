"""The watch over a real training run: records of its hooks, rules over them, and actions."""
