"""The report in a web browser, kept current, for users without a plug-in in their editor."""
