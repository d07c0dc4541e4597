"""The pages of the terminal UI, one per module; ``app.py`` composes the first one, Overview."""
