"""The pages of the terminal UI, one a module; keys 1 to 8 go to them."""
