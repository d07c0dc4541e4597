"""The pages of the reports: each builds one document, for the terminal and for HTML."""
