"""Settings of a user or a project: in the editor, in ``pyproject.toml``."""
