"""What was predicted and what was then measured, kept from one verification to the next."""
