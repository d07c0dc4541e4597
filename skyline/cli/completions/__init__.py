"""Completion of command lines in shells: the words of all commands, and a script for each shell."""
