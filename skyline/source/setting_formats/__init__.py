"""Readers of settings files, one module for each format: the values with their lines, columns and keys."""
