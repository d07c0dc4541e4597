"""Settings of a person or a project: in the editor, in ``pyproject.toml``."""
