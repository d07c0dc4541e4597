"""The pages of the terminal UI, one per module; keys 1 to 8 select them."""
