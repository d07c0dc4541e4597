"""Screens on top of the main screen: help, explanations, the diff, an input."""
