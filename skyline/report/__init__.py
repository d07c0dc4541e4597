"""Output for people and programs: text, HTML, JSON, and traces for other viewers, all from one report."""
