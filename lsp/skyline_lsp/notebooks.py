"""Notebooks cannot be profiled yet: their cells are not a script that runs from beginning to end."""

from __future__ import annotations

NO_NOTEBOOKS = "Notebooks cannot be profiled yet"
NOTEBOOK_HINT = "Move the training loop to a script: jupyter nbconvert --to script converts a notebook."


def is_notebook(uri: str) -> bool:
    """True if a document is a notebook or a cell of one."""
    return uri.startswith("vscode-notebook-cell:") or uri.partition("#")[0].endswith(".ipynb")
