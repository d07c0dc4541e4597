"""How long an operator would take on hardware that was not measured: empty so far."""
