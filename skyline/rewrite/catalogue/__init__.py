"""The rewrites, one module each: it binds ``NAME`` and ``rewrite``, and ``ORDER`` where its turn matters."""
