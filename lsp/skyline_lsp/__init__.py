"""The Skyline language server: shows the cost of a training script inside the editor."""
