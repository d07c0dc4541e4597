"""What an editor sees, one concern per module; each has ``register(server)``."""
