"""Profiles of scripts that run on another machine, over the user's own ssh."""
