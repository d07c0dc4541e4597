"""The report in a web browser, kept current, for those who have no plug-in in their editor."""
