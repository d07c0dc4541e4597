"""Programs that start a training script: each reads its own words and says what they ask for."""
