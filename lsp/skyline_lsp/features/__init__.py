"""The editor features, one per module. Each module has ``register(server)``."""
