"""The places of a training script that rewrites ask for, each found, or refused with a precise reason."""
