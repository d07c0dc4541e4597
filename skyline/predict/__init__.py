"""How time and memory depend on what can be varied, from measurements of it."""
