"""The what-ifs that come with Skyline: one module each, which binds ``WHATIF``."""
