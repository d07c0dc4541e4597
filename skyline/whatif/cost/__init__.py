"""Costs of changed work: models that several what-ifs share, each with its source."""
