"""What a person reads: text, HTML, JSON, and traces for other viewers, all made from one report."""
