"""How long an operator would take on hardware that is not here: a table of GPUs and a calibrated roofline."""
