"""Programs that start a training script: each module reads the words of one launcher and returns its request."""
