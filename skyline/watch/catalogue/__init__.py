"""The rules of ``skyline watch``: one module each, which binds ``RULE``."""
