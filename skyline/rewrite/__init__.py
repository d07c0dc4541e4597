"""Changes to the person's code: exact edits, or a refusal with its reason."""
