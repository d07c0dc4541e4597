"""What changed work costs: models that several what-ifs share, each with its source."""
