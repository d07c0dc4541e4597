"""The terminal UI of Skyline: a client of the language server, in Textual."""
