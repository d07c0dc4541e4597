"""The Skyline language server: what a training script costs, inside the editor."""
