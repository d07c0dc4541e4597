"""What a person may set once instead of saying it each time: in their editor, in ``pyproject.toml``."""
