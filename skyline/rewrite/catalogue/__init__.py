"""The rewrites, one module each: it binds ``NAME`` and ``rewrite``, and ``ORDER`` if the order matters."""
